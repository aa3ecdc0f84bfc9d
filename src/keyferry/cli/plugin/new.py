"""Create a plugin project whose tests pass, or the configs of a provider from a preset."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.parser import did_you_mean
from keyferry.errors import ProvideError
from keyferry.kit.plugin_kind import PluginKind
from keyferry.kit.scaffold.federation import PRESETS, find_setting_problems, make_provider_files
from keyferry.kit.scaffold.project import check_name, write_files, write_project
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Create the project of a new credential plugin: one function to complete, tests that pass, a config that uses
the plugin, and packaging that installs it as a program. It requires only Python and keyferry's SDK.

The kubelet runs an image plugin to obtain a registry's credentials. kubectl and other clients run a cluster
plugin to obtain a cluster's credentials.

With --preset, there is nothing to program: the files are the configs of a provider that runs keyferry-federate,
for a registry that trusts an OpenID Connect issuer, with the RBAC objects and the steps to set it up. For a token
of a CI job (--subject-from github or env, or a preset that takes no other) they are a provider config for jobs, and
their steps."""

EXAMPLES = """\
examples:
  keyferry plugin new acme-registry
  keyferry plugin new acme-login --kind cluster --to ~/src/acme-login
  keyferry plugin new keyferry-federate --preset jfrog --registry team.jfrog.io \\
    --issuer https://kubernetes.example.com --param provider_name=k8s
  cd acme-registry && pip install pytest && pytest && keyferry lint config/provider.yaml"""

# Those of keyferry-federate that take the place of a config, except for the preset.
_PRESET_OPTIONS = (
    ("registry", "HOST", "a registry, with its port if image names have it"),
    ("issuer", "URL", "the issuer of the tokens, such as that of the cluster"),
    ("audience", "TEXT", "the audience of the tokens (default: the first registry)"),
    ("param", "NAME=VALUE", "a parameter of the preset; may be repeated, like the next three"),
    ("param-annotation", "NAME=KEY=PATTERN", "a parameter from an annotation of the service account"),
    ("param-file", "NAME=PATH", "a parameter whose value is in a file"),
    ("param-env", "NAME=VARIABLE", "a parameter whose value is in a variable"),
    ("subject-from", "SOURCE", "where the token is: kubelet, file, env or github (default: kubelet)"),
    ("subject-file", "PATH", "the file that the token is in"),
    ("subject-variable", "VARIABLE", "the variable that the token is in"),
    ("cache-key-type", "TYPE", "Registry or Image (default: Registry)"),
    ("ca-file", "PATH", "authorities to trust in place of the system's"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry plugin new``."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the plugin's name, used for its program, its package and its config entry",
    )
    parser.add_argument(
        "--kind",
        choices=[str(kind) for kind in PluginKind],
        help="image for the kubelet, cluster for kubectl (default: image)",
    )
    _add_preset_arguments(parser)
    parser.add_argument("--to", metavar="DIR", help="the folder of the project (default: a new folder NAME)")


def _add_preset_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a provider from a preset, by the flags of keyferry-federate")
    group.add_argument(
        "--preset", metavar="PRESET", help="such as jfrog; the message for an unknown one lists them"
    )
    for name, metavar, about in _PRESET_OPTIONS:
        group.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=about)


def run(args: argparse.Namespace) -> int:
    """Write the project, print its files, and report the next command."""
    problem = check_name(args.name)
    if problem:
        raise WrongUsage(f"{args.name!r} is not a valid name of a plugin: {problem}")
    folder = args.to or args.name
    settings = {name: getattr(args, name.replace("-", "_")) for name, _, _ in _PRESET_OPTIONS}
    if args.preset:
        return _write_provider(args, settings, folder)
    given = [f"--{name}" for name, values in settings.items() if values]
    if given:
        raise WrongUsage(f"{given[0]} needs --preset")
    for path in write_project(args.name, PluginKind(args.kind or PluginKind.IMAGE), folder):
        print(path)
    python = shlex.quote(_python())
    tests = f"{python} -m pip install pytest && {python} -m pytest"
    report(f"next: cd {shlex.quote(folder)} && {tests}")
    return Exit.OK


def _write_provider(args: argparse.Namespace, settings: dict[str, list[str]], folder: str) -> int:
    if args.kind == PluginKind.CLUSTER:
        raise WrongUsage("--preset is for --kind image")
    if args.preset not in PRESETS:
        near = did_you_mean(args.preset, list(PRESETS))
        raise WrongUsage(f"--preset {args.preset!r}: expected one of {', '.join(PRESETS)}{near}")
    settings = {**settings, "preset": [args.preset]}
    # The registry's name is the usual audience; a preset may have one of its own.
    if not settings["audience"] and "subject" not in PRESETS[args.preset]:
        settings["audience"] = settings["registry"][:1]
    try:
        problems = find_setting_problems(settings)
    except ProvideError as error:
        raise WrongUsage(str(error)) from None
    if problems:
        raise WrongUsage(f"the preset {args.preset!r} needs other settings: {'; '.join(problems)}")
    files = make_provider_files(args.name, settings)
    for path in write_files(files, folder):
        print(path)
    configs = " ".join(name for name in ("provider.yaml", "federation.yaml") if name in files)
    report(f"next: cd {shlex.quote(folder)} && keyferry lint {configs}; README.md has the steps")
    return Exit.OK


def _python() -> str:
    """Return ``python3`` if the shell finds this Python by that name, else its path; others may lack keyferry."""
    found = shutil.which("python3")
    # Not the resolved paths: those of all environments made from one Python are the same.
    is_this = found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)
    return "python3" if is_this else sys.executable
