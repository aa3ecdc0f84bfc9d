"""Command lines for hints: they repeat the options that were given, so that they work when they are pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry.cli.frame.commands import COMMANDS, load_module
from keyferry.cli.frame.usual import Declarations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

__all__ = ["command_line"]

# Options that a hint does not repeat: they do not change what is found.
_DROPPED = ("output", "quiet", "reveal", "all_patterns", "parallel")

_FILES = ("filename", "pod")
_STANDARD_INPUT = "-"


def command_line(args: argparse.Namespace, command: str, *words: str) -> str:
    """Return a command line of keyferry: *command*, *words*, and the options of *args* that the command has too."""
    declared = Declarations()
    load_module(_module_of(command)).add_arguments(declared)
    return shlex.join(("keyferry", *command.split(), *words, *_options(declared, args)))


def _module_of(command: str) -> str:
    name, _, below = command.partition(" ")
    module = COMMANDS[name].module
    return module if not below else str(load_module(module).SUBCOMMANDS[below].module)


def _options(declared: Declarations, args: argparse.Namespace) -> Iterator[str]:
    seen = set(_DROPPED)
    for name, option in declared.options.items():
        value = getattr(args, option.dest, None)
        if option.dest in seen or value is None or value == declared.defaults[option.dest]:
            continue
        seen.add(option.dest)
        if option.action == "store_true":
            yield name
        else:
            for each in value if option.action == "append" else (value,):
                yield from (name, _word(option.dest, each))


def _word(dest: str, value: object) -> str:
    if dest in _FILES and value == _STANDARD_INPUT:
        # The pasted command would wait for input that is gone.
        return "FILE"
    return f"{value:g}" if isinstance(value, float) else str(value)
