"""Code that commands with subcommands share: ``keyferry kube``, ``keyferry plugin``, ``keyferry records``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keyferry.cli.frame.arguments import run_command
from keyferry.cli.frame.commands import Command, load_module, report_failure
from keyferry.errors import KeyferryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

__all__ = ["add_subcommand", "run_subcommand"]


def add_subcommand(parser: argparse.ArgumentParser, subcommands: Mapping[str, Command]) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    parser.add_argument(
        "subcommand", choices=subcommands, metavar="SUBCOMMAND", help=f"one of {', '.join(subcommands)}"
    )
    words = parser.add_argument(
        "words", nargs="...", metavar="...", help="the subcommand's arguments and options"
    )
    words.required = False


def run_subcommand(
    noun: str,
    args: argparse.Namespace,
    subcommands: Mapping[str, Command],
    find_hint: Callable[[KeyferryError, argparse.Namespace], str] = lambda _error, _args: "",
    edit: Callable[[str], str] = str,
) -> int:
    """Import and run a subcommand; report its errors, changed by *edit*, with the hint that *find_hint* returns."""
    module = load_module(subcommands[args.subcommand].module)

    def failed(error: KeyferryError, given: argparse.Namespace) -> int:
        return report_failure(error, edit, find_hint(error, given))

    return run_command(f"keyferry {noun} {args.subcommand}", module, args.words, failed)
