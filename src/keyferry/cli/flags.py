"""kubectl's global flags before a command: ``keyferry --context prod explain pod/web``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import cache

from keyferry.cli.run import COMMANDS, load_command


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the command, and all others: global flags that stand before it come first.

    The command has one word, or two if it is a group with a subcommand, or none if there is no such command. Whether it
    has these flags, it says itself.
    """
    flags, rest = _split_flags(words)
    name = rest[0] if rest else ""
    if name not in COMMANDS:
        return [], list(words)
    subcommands = load_command(name).subcommands
    if not subcommands:
        return [name], [*flags, *rest[1:]]
    more, below = _split_flags(rest[1:])
    if not below or below[0] not in subcommands:
        return [name], [*flags, *rest[1:]]
    return [name, below[0]], [*flags, *more, *below[1:]]


def _split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the global flags that *words* begin with, with their values, and the words after them."""
    at = 0
    while at < len(words) and is_flag(words[at]):
        at += 2 if _takes_next_word(words[at]) else 1
    return list(words[:at]), list(words[at:])


def is_flag(word: str) -> bool:
    """Return whether *word* is a global flag of kubectl, alone or with its value."""
    return word.startswith("-") and _name(word) in _takes_value()


def _takes_next_word(word: str) -> bool:
    name = _name(word)
    return word == name and _takes_value()[name]


def _name(word: str) -> str:
    """Return the name of the flag in *word*, which may have its value, as in ``--as=bob`` and ``-nshop``."""
    return word.partition("=")[0] if word.startswith("--") else word[:2]


@cache
def _takes_value() -> dict[str, bool]:
    """Return the names of the global flags, and whether each has a value."""
    parser = make_flags_parser()
    return {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}  # noqa: SLF001 - argparse has no public list of them


def make_flags_parser() -> ArgumentParser:
    """Return a parser that has the global flags alone."""
    from keyferry.cli.options import add_context_arguments, add_namespace_argument

    parser = ArgumentParser(add_help=False)
    group, _ = add_context_arguments(parser)
    add_namespace_argument(group)
    return parser
