"""The arguments of ``keyferry lint``."""

from __future__ import annotations

from keyferry._core.severity import SEVERITIES
from keyferry.cli.options import add_output_argument
from keyferry.images.config.validate import GATE
from keyferry.lint.versions import LATEST, rules_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

FORMATS = ("text", "table", "json", "sarif", "junit", "github", "diff")
# The path of standard input, which is given as "-".
STDIN_PATH = "/dev/stdin"


def add_lint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, the rules that apply to them, and what to do with the findings."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="FILE|DIR",
        help=(
            "a kubeconfig, a kuberc file, a FederationConfig, a provider config, a directory of provider configs, "
            "which are merged as the kubelet merges them, a folder of pull records, or - for standard input (default: "
            "this node's provider config)"
        ),
    )
    parser.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help=(
            "also check the plugins in this directory (default: KEYFERRY_BIN_DIR; for this node's "
            "config, the node's own)"
        ),
    )
    _add_rules(parser)
    parser.add_argument("--fix", action="store_true", help="correct what has one right answer, in the files")
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="the files are for another machine: leave out findings about files, plugins and permissions of this one",
    )
    parser.add_argument(
        "--rbac",
        action="store_true",
        help="print the objects that permit kubelets to request the audiences of the files, and exit",
    )
    parser.add_argument("--list", action="store_true", help="explain all codes, or the given ones, and exit")
    add_output_argument(parser, FORMATS)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubernetes",
        type=_versions,
        default=(LATEST,),
        metavar="VERSION",
        help=(
            "version of Kubernetes whose rules apply, such as 1.34 or v1.34.2, or several with commas "
            f"(default: {LATEST})"
        ),
    )
    parser.add_argument(
        "--feature-gates",
        type=_gates,
        action="append",
        default=[],
        metavar="NAME=BOOL",
        help=f"feature gates of the kubelet that differ from its defaults, such as {GATE}=true",
    )
    parser.add_argument(
        "--severity",
        choices=[str(severity) for severity in SEVERITIES],
        default=str(SEVERITIES[-1]),
        metavar="LEVEL",
        help="lowest severity to report: error, warning or info (default: info)",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 after infos, too")


def _versions(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(rules_for(part.strip(), {}).version for part in text.split(",")))
    except ValueError as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None


def _gates(text: str) -> dict[str, bool]:
    """Parse feature gates in the kubelet's form, NAME=BOOL joined by commas; raise ArgumentTypeError."""
    gates = {}
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        if not name or value.lower() not in ("true", "false"):
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"{item!r} is not a feature gate, expected NAME=true or NAME=false")
        gates[name] = value.lower() == "true"
    return gates
