"""Create a plugin project whose tests pass."""

import os
import shlex
import shutil
import sys

from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.kit.plugin_kind import PluginKind
from keyferry.show.report import report

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Create the project of a new credential plugin: one function to complete, tests that pass, a config that uses
the plugin, and packaging that installs it as a program. It requires only Python and keyferry's SDK.

The kubelet runs an image plugin to obtain a registry's credentials. kubectl and other clients run a cluster
plugin to obtain a cluster's credentials."""

EXAMPLES = """\
examples:
  keyferry plugin new acme-registry
  keyferry plugin new acme-login --kind cluster --to ~/src/acme-login
  cd acme-registry && pip install pytest && pytest && keyferry lint config/provider.yaml"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry plugin new``."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the plugin's name, used for its program, its package and its config entry",
    )
    parser.add_argument(
        "--kind",
        choices=[str(kind) for kind in PluginKind],
        default=str(PluginKind.IMAGE),
        help="image for the kubelet, cluster for kubectl (default: image)",
    )
    parser.add_argument("--to", metavar="DIR", help="the folder of the project (default: a new folder NAME)")


def run(args: "argparse.Namespace") -> int:
    """Write the project, print its files, and report the next command."""
    from keyferry.kit.scaffold.project import check_name, write_project

    problem = check_name(args.name)
    if problem:
        raise WrongUsage(f"{args.name!r} is not a valid name of a plugin: {problem}")
    folder = args.to or args.name
    for path in write_project(args.name, PluginKind(args.kind), folder):
        print(path)
    python = shlex.quote(_python())
    tests = f"{python} -m pip install pytest && {python} -m pytest"
    report(f"next: cd {shlex.quote(folder)} && {tests}")
    return Exit.OK


def _python() -> str:
    """Return ``python3`` if the shell finds this Python by that name, else its path; others may lack keyferry."""
    found = shutil.which("python3")
    # Not the resolved paths: those of all environments made from one Python are the same.
    is_this = found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)
    return "python3" if is_this else sys.executable
