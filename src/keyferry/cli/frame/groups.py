"""What commands with subcommands share: ``keyferry kube``, ``keyferry plugin``, ``keyferry records``."""

from collections.abc import Callable, Mapping

from keyferry.cli.frame.arguments import run_command
from keyferry.cli.frame.commands import Command, load_module, report_failure
from keyferry.errors import KeyferryError

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

__all__ = ["add_subcommand", "run_subcommand"]


def add_subcommand(parser: "argparse.ArgumentParser", subcommands: Mapping[str, Command]) -> None:
    """The subcommand; what follows is for its own parser."""
    parser.add_argument(
        "subcommand", choices=subcommands, metavar="SUBCOMMAND", help=f"one of {', '.join(subcommands)}"
    )
    words = parser.add_argument("words", nargs="...", metavar="...", help="its arguments and options")
    words.required = False


def run_subcommand(
    noun: str,
    args: "argparse.Namespace",
    subcommands: Mapping[str, Command],
    failed: Callable[[KeyferryError], int] = report_failure,
) -> int:
    """Run a subcommand, imported only now; its errors are not about providers, and *failed* reports them."""
    module = load_module(subcommands[args.subcommand].module)
    try:
        return run_command(f"keyferry {noun} {args.subcommand}", module, args.words)
    except KeyferryError as error:
        return failed(error)
