"""How a command talks: colours and debug logs, options that every command has."""

from __future__ import annotations

from types import ModuleType

from keyferry.cli.frame.usual import Declarations
from keyferry.show.writer import ColorChoice, choose_color

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


__all__ = ["add_talk_arguments", "apply_talk"]


def add_talk_arguments(parser: argparse.ArgumentParser | Declarations, module: ModuleType) -> None:
    """Declare the choice of colours, and debug logs; a command with HAS_VERBOSE has declared ``-v`` itself."""
    parser.add_argument(
        "--color",
        choices=tuple(ColorChoice),
        metavar="WHEN",
        help="colours: auto, always or never (default: auto, which means never if NO_COLOR is set, "
        "else always if FORCE_COLOR is set, else on a terminal)",
    )
    if not getattr(module, "HAS_VERBOSE", False):
        parser.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            help="log on standard error what is done: which config, which plugins and requests, how long; no secrets",
        )


def apply_talk(args: argparse.Namespace) -> None:
    """Set the colours of standard output, and turn on debug logs; without an option, a choice made before stays."""
    if args.color is not None:
        choose_color(ColorChoice(args.color))
    if args.verbose:
        from keyferry.cli.frame.debug_log import show_debug_logs

        show_debug_logs()
