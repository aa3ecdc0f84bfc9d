"""Command lines for hints: they repeat the options that were given, so that they work when they are pasted."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from keyferry.cli.parser import make_parser
from keyferry.cli.run import load_command

__all__ = ["command_line"]

# Options that a hint does not repeat: they do not change what is found.
_DROPPED = ("output", "quiet", "reveal", "all_patterns", "parallel", "color", "verbose", "help")

_FILES = ("filename", "pod")
_STANDARD_INPUT = "-"


def command_line(args: Namespace, command: str, *words: str) -> str:
    """Return a command line of keyferry: *command*, *words*, and the options of *args* that the command has too."""
    parser = make_parser("keyferry", load_command(*command.split()))
    return shlex.join(("keyferry", *command.split(), *words, *_options(parser, args)))


def _options(parser: ArgumentParser, args: Namespace) -> Iterator[str]:
    seen = set(_DROPPED)
    for option in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        value = getattr(args, option.dest, None)
        is_default = value is None or value == parser.get_default(option.dest)
        if not option.option_strings or option.dest in seen or is_default:
            continue
        seen.add(option.dest)
        name = option.option_strings[0]
        if option.nargs == 0:
            yield name
        else:
            for each in value if isinstance(value, list) else (value,):
                yield from (name, _word(option.dest, each))


def _word(dest: str, value: object) -> str:
    if dest in _FILES and value == _STANDARD_INPUT:
        # The pasted command would wait for input that is gone.
        return "FILE"
    return f"{value:g}" if isinstance(value, float) else str(value)
