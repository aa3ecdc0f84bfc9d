"""The argparse parser of a command, with help that fits the terminal and one-line errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from types import ModuleType

from keyferry.cli.frame.commands import leave_for_usage
from keyferry.cli.frame.near_misses import did_you_mean
from keyferry.cli.frame.talk import add_talk_arguments
from keyferry.show.text import fold, fold_help, terminal_width
from keyferry.show.writer import Lines
from keyferry.workloads.objects import parse_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Never

    from _typeshed import SupportsWrite

__all__ = ["Parser", "make_parser"]


_WIDTH = 100
# An option or a group of alternatives in brackets, which may hold brackets themselves, or a single word.
_USAGE_WORD = re.compile(r"\[(?:[^][]|\[[^]]*\])*\]|\([^)]*\)|\S+")


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with the command that shows the help."""

    def error(self, message: str) -> Never:
        """Report wrong usage and exit with code 2."""
        leave_for_usage(self.prog, message)

    def parse_known_args(  # type: ignore[override] # of its overloads, only this form is used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse *args*; report an option that does not exist, with the one that is meant."""
        found, others = super().parse_known_args(args, namespace)
        for word in others:
            name = word.partition("=")[0]
            if name.startswith("-"):
                hint = did_you_mean(name, self._option_string_actions)
                self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        return found, others

    def parse_args(  # type: ignore[override] # of its overloads, only this form is used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse *args*; report a word that is left over, with the target that is meant."""
        found, others = self.parse_known_args(args, namespace)
        if others:
            hint = _target_hint(str(vars(found).get("image")), others[0])
            self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        return found

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Report a value that is not one of the choices, with the one that is meant."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), choices)
        message = f"invalid choice: {value!r} (choose from {', '.join(choices)}){hint}"
        raise argparse.ArgumentError(action, message)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write the help as it is formatted, line breaks included."""
        if message:
            (file or sys.stdout).write(Lines(message))


def _target_hint(word: str, name: str) -> str:
    """Return the one word for two that name an object of a cluster, as kubectl also takes them."""
    target = f"{word}/{name}"
    return "" if parse_target(target) is None else f"; did you mean {target!r}?"


def make_parser(prog: str, module: ModuleType) -> Parser:
    """Return the parser of a command; its DESCRIPTION is the description, its EXAMPLES the epilogue."""
    parser = Parser(
        prog=prog,
        description=getattr(module, "DESCRIPTION", module.__doc__),
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    add_talk_arguments(parser, module)
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter with the same form under every Python version; a test compares the docs with it.

    Its width is 100 columns, and less on a terminal that has less.
    """

    def __init__(self, prog: str, **_: object) -> None:
        columns = min(terminal_width(), _WIDTH) if sys.stdout.isatty() else _WIDTH
        self._is_narrow = columns < _WIDTH
        super().__init__(prog, max_help_position=columns // 3 + 1, width=columns)

    def _format_usage(self, *args: Any) -> str:
        """Return the usage with options and groups kept whole; versions of Python break its lines differently."""
        width, self._width = self._width, sys.maxsize
        prefix, program, rest = super()._format_usage(*args).strip().partition(self._prog)
        self._width = width
        lines = [prefix + program]
        indent = " " * min(len(lines[0]), width // 2)
        for word in _USAGE_WORD.findall(rest):
            if len(lines[-1]) + 1 + len(word) > width:
                lines.append(indent)
            lines[-1] += f" {word}"
        return "\n".join(lines) + "\n\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return a description or the examples: as they are written, unless the terminal is too narrow for them."""
        if not self._is_narrow:
            return super()._fill_text(text, width, indent)
        return fold_help(text, width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Return the lines of an option's help; on a narrow terminal no word is broken."""
        if not self._is_narrow:
            return super()._split_lines(text, width)
        return list(fold(" ".join(text.split()), width=width))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return ``-o, --output FORMAT``; older Pythons repeat the value's name after each spelling."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"
