"""A new plugin project that passes its own tests at once."""

import shlex

from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.kit.plugin_kind import PluginKind
from keyferry.show.report import report

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Write the project of a new credential plugin: one function to fill in, tests that pass at once, a config
that uses it, and packaging that makes it a program. It needs Python and keyferry's SDK, nothing else.

An image plugin is what the kubelet runs for a registry's credentials; a cluster plugin is what kubectl
and its relatives run for a cluster's."""

EXAMPLES = """\
examples:
  keyferry plugin new acme-registry
  keyferry plugin new acme-login --kind cluster --to ~/src/acme-login
  cd acme-registry && pytest && keyferry lint config/provider.yaml"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry plugin new``."""
    parser.add_argument(
        "name", metavar="NAME", help="the plugin's name: its program, its package, its config entry"
    )
    parser.add_argument(
        "--kind",
        choices=[str(kind) for kind in PluginKind],
        default=str(PluginKind.IMAGE),
        help="whose plugin (default: image)",
    )
    parser.add_argument("--to", metavar="DIR", help="where to write it (default: a new folder NAME)")


def run(args: "argparse.Namespace") -> int:
    """Write it, and say what to type next."""
    from keyferry.kit.scaffold.project import check_name, write_project

    problem = check_name(args.name)
    if problem:
        raise WrongUsage(f"{args.name!r} cannot be a plugin's name: {problem}")
    folder = args.to or args.name
    for path in write_project(args.name, PluginKind(args.kind), folder):
        print(path)
    report(f"next: cd {shlex.quote(folder)} && python3 -m pytest")
    return Exit.OK
