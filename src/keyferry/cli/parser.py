"""The argparse parser of a command: errors of one line that name what was meant, and help with the examples first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from keyferry.cli.exits import leave_for_usage
from keyferry.show.text import fold, fold_help, terminal_width
from keyferry.show.writer import ColorChoice, Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Never

    from _typeshed import SupportsWrite

    from keyferry.cli.run import Command

_WIDTH = 100
# How alike a word and what is meant are at least: all options begin alike, and short names differ by a swapped letter.
_OPTION_CUTOFF, _WORD_CUTOFF = 0.75, 0.6


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

    def format_usage(self) -> str:
        """Return the usage: the arguments by name, and one word for the options, which the help lists."""
        formatter = _HelpFormatter(self.prog)
        formatter.add_usage(self.usage, self._get_positional_actions(), ())
        return formatter.format_help()

    def format_help(self) -> str:
        """Return the usage, the examples, the description, the arguments, and the notes below the examples.

        Groups whose title begins with ``advanced`` follow the others, and what every command has is last.
        """
        examples, _, notes = (self.epilog or "").partition("\n\n")
        columns = min(terminal_width(), _WIDTH) if sys.stdout.isatty() else _WIDTH
        formatter = _HelpFormatter(self.prog, columns)
        formatter.add_usage(self.usage, self._get_positional_actions(), ())
        formatter.add_text(examples)
        formatter.add_text(self.description)
        *groups, of_every_command = self._action_groups
        groups.sort(key=lambda group: (group.title or "").startswith("advanced"))
        for group in (*groups, of_every_command):
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)  # noqa: SLF001 - as argparse does
            formatter.end_section()
        formatter.add_text(notes)
        return formatter.format_help()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write the help as it is formatted, line breaks included."""
        if message:
            (file or sys.stdout).write(Lines(message))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the closest of the *known* words; empty if none is close."""
    from difflib import get_close_matches

    words = {each.lower(): each for each in known}
    cutoff = _OPTION_CUTOFF if word.startswith("-") else _WORD_CUTOFF
    close = get_close_matches(word.lower(), words, 1, cutoff)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


def _target_hint(word: str, name: str) -> str:
    """Return the one word for two that name an object of a cluster, as kubectl also takes them."""
    from keyferry.workloads.objects import parse_target

    target = f"{word}/{name}"
    return "" if parse_target(target) is None else f"; did you mean {target!r}?"


def make_parser(prog: str, command: Command) -> Parser:
    """Return the parser of a command, with the options that every command has last."""
    parser = Parser(
        prog=prog,
        description=command.description,
        epilog=command.examples,
        formatter_class=_HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    group = parser.add_argument_group("options of every command")
    if not command.has_verbose:
        group.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            help="log on standard error what is done: which config, which plugins and requests, how long; no secrets",
        )
    group.add_argument(
        "--color",
        choices=tuple(ColorChoice),
        metavar="WHEN",
        help="colours: auto, always or never (default: auto, which means never if NO_COLOR is set, "
        "else always if FORCE_COLOR is set, else on a terminal)",
    )
    group.add_argument("-h", "--help", action="help", help="show this help and exit")
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter with the same form under every Python version; a test compares the docs with it.

    Its width is 100 columns, and less on a terminal that has less.
    """

    def __init__(self, prog: str, columns: int = _WIDTH, **_: object) -> None:
        self._is_narrow = columns < _WIDTH
        super().__init__(prog, max_help_position=columns // 3 + 1, width=columns)

    def _format_usage(self, usage: str | None, *args: Any) -> str:
        """Return the usage that is given, else that of the arguments, and one word for the options."""
        text = super()._format_usage(usage, *args)
        return text if usage else f"{text.rstrip()} [OPTIONS]\n\n"

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
