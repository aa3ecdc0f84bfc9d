"""Install a plugin in the folder where a kubelet or kubectl finds it."""

from __future__ import annotations

import shlex

from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.parser import did_you_mean
from keyferry.kit.scaffold.install import (
    PLUGINS,
    OwnPlugin,
    Plugin,
    ProgramState,
    find_own,
    find_program,
    install,
    takes_no_arguments,
    write_config,
)
from keyferry.show.text import table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Install a plugin in the folder where a kubelet or kubectl finds it: a reference plugin by its name, or your own
by the module and function that run it, in a package that is installed for this Python. The installed program
is a small script that runs the plugin with this Python, isolated from the user's settings. It starts faster
than the script that pip installs.

With --upstream-name, the program has the name of the cloud's own plugin, whose flags and config files it
accepts, so that a node's config need not change. Without NAME, all plugins are listed.

A program of the same plugin that is there already is updated. Anything else of that name is replaced only with
--force.

With --federation-config, a FederationConfig in YAML or JSON is linted, and written as JSON to the path that the
provider's args name: those of the provider called like the program, in --config or in this node's provider config.
What changes in a config that is there already is shown as a diff, without values that may be secrets. A config that
keyferry has not written, or that was changed since, is replaced only with --force: beside each that it writes is a
checksum (PATH.sha256). A file that is no FederationConfig is never replaced."""

_FEDERATE = "federate"

EXAMPLES = """\
examples:
  keyferry plugin install
  keyferry plugin install ecr --bin-dir /usr/libexec/kubernetes/plugins
  keyferry plugin install ecr gcr acr --bin-dir ./bin --upstream-name
  keyferry plugin install eks --bin-dir ~/.local/bin --as aws-iam-authenticator
  keyferry plugin install federate --bin-dir /usr/libexec/kubernetes/plugins --federation-config federation.yaml
  keyferry plugin install acme_registry.plugin:main --bin-dir /usr/libexec/kubernetes/plugins"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry plugin install``."""
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="a reference plugin, or package.module:function; without one, the reference plugins are listed",
    )
    parser.add_argument("--bin-dir", metavar="DIR", help="the folder to install into")
    naming = parser.add_mutually_exclusive_group()
    naming.add_argument(
        "--as",
        dest="program",
        metavar="PROGRAM",
        help="the program's name (default: keyferry-NAME, or the package's)",
    )
    naming.add_argument(
        "--upstream-name", action="store_true", help="use the name of the program that the plugin replaces"
    )
    parser.add_argument(
        "--federation-config",
        metavar="FILE",
        help="federate: lint this FederationConfig and write it where the provider's args name it, as JSON",
    )
    parser.add_argument(
        "--config",
        metavar="PATH",
        help="with --federation-config: the provider config (default: KEYFERRY_CONFIG, else this node's)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace whatever has the name of the program, and a FederationConfig of somebody else",
    )


def run(args: argparse.Namespace) -> int:
    """Install the plugins, or list all of them."""
    if not args.names:
        _list(list(PLUGINS.values()))
        return Exit.OK
    plugins = [PLUGINS.get(name) or _own(name, list(PLUGINS)) for name in args.names]
    problem = _problem(args)
    if problem:
        raise WrongUsage(problem)
    if args.federation_config:
        return _install_with_config(args, plugins[0])
    needy = [plugin for plugin in plugins if isinstance(plugin, OwnPlugin) and not takes_no_arguments(plugin)]
    for plugin in plugins:
        upstream = plugin.upstream if args.upstream_name else ""
        path = _install(plugin, args, args.program or upstream or plugin.program)
        if plugin in needy:
            report(f"warning: {plugin.function!r} needs arguments, and a program calls it without any")
        if isinstance(plugin, OwnPlugin):
            report(f"check that it is a plugin with: keyferry plugin test {shlex.quote(path)}")
    return Exit.OK


def _install_with_config(args: argparse.Namespace, plugin: Plugin | OwnPlugin) -> int:
    """Lint the config and look at what it replaces; then write the program and the config."""
    from keyferry.cli.plugin.federation_config import check_federation, show_change

    program = args.program or plugin.program
    checked = check_federation(args.federation_config, args.config, program, replace=args.force)
    _install(plugin, args, program)
    show_change(checked)
    if checked.before != checked.after:
        write_config(checked.target, checked.after)
    print(checked.target)
    return Exit.OK


def _install(plugin: Plugin | OwnPlugin, args: argparse.Namespace, program: str) -> str:
    """Write the program, print its path, and tell what it replaces."""
    state, python = find_program(plugin, args.bin_dir, program)
    path = install(plugin, args.bin_dir, program, replace=args.force)
    if state is ProgramState.OLDER:
        report(f"{path} is updated; it was a program of the same plugin, with {python}")
    elif state is ProgramState.CURRENT:
        report(f"{path} is up to date")
    print(path)
    return path


def _own(name: str, known: list[str]) -> OwnPlugin:
    own = find_own(name)
    if own is None:
        expected = f"expected one of {', '.join(known)}, or package.module:function"
        raise WrongUsage(f"{name!r} is not a reference plugin; {expected}{did_you_mean(name, known)}")
    return own


def _problem(args: argparse.Namespace) -> str:
    if not args.bin_dir:
        return "no folder is given; set it with --bin-dir DIR"
    if args.federation_config and args.names != [_FEDERATE]:
        return f"--federation-config is for the plugin {_FEDERATE!r} alone"
    if args.config and not args.federation_config:
        return "--config is for --federation-config"
    if args.program and len(args.names) > 1:
        return "--as names one program, but several plugins are given"
    if args.program and (not args.program.strip() or "/" in args.program or args.program in (".", "..")):
        return f"--as {args.program!r}: not a valid name of a program"
    return ""


def _list(plugins: list[Plugin]) -> None:
    rows = [
        (plugin.name, plugin.kind, plugin.program, plugin.upstream or "-", plugin.about) for plugin in plugins
    ]
    print(table(("NAME", "KIND", "PROGRAM", "REPLACES", "DESCRIPTION"), rows))
