"""The parser of argparse for a command: its help is written to be read, and its errors say what to type next."""

import argparse
import sys
from types import ModuleType

from keyferry.cli.frame.commands import leave_for_usage
from keyferry.show.writer import Lines

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Never

    from _typeshed import SupportsWrite

__all__ = ["Parser", "make_parser"]


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong and what to type next."""

    def error(self, message: str) -> "Never":
        """Report wrong usage and leave with exit code 2."""
        leave_for_usage(self.prog, message)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Help is ours, line breaks included."""
        if message:
            (file or sys.stdout).write(Lines(message))


def make_parser(prog: str, module: ModuleType) -> Parser:
    """The parser of a command: its docstring is the description, its EXAMPLES the epilogue."""
    parser = Parser(
        prog=prog,
        description=getattr(module, "DESCRIPTION", module.__doc__),
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of one width and one form under every version of Python: the docs are compared with it."""

    def __init__(self, prog: str, **_: object) -> None:
        super().__init__(prog, max_help_position=34, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FORMAT``, where older Pythons repeat the value's name for each spelling."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"
