"""Every command and subcommand with its options and their values, from the parsers of this version."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from keyferry._core.values import Value, field
from keyferry.cli.frame.commands import COMMANDS, Command
from keyferry.cli.frame.parser import make_parser
from keyferry.kit.codes.catalogue import CHECKS
from keyferry.kit.scaffold.install import PLUGINS
from keyferry.lint.catalogue import CODES

__all__ = ["CONTEXTS", "CompletedCommand", "Option", "all_commands", "plain"]

# The values of an option that only the shell can find, when it completes.
CONTEXTS = ("contexts",)
LIST_CONTEXTS = "keyferry kube contexts -o name 2>/dev/null"


class Option(Value):
    """A long option, its short form if it has one, its help, and its values.

    *values* is CONTEXTS for the contexts of the kubeconfig, and empty if they are not known. An option that takes no
    value and has some is followed by one of them as an argument.
    """

    name: str
    short: str
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()


class CompletedCommand(Value):
    """A command by its words; *subcommands* with their summaries, and the known *values* of its first argument."""

    words: tuple[str, ...]
    summary: str
    options: tuple[Option, ...] = ()
    subcommands: Mapping[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The words of the command, as typed."""
        return " ".join(self.words)


@cache
def all_commands() -> tuple[CompletedCommand, ...]:
    """Return all commands, each before its subcommands."""
    return tuple(found for name, entry in COMMANDS.items() for found in _commands((name,), entry))


def _commands(words: tuple[str, ...], entry: Command) -> Iterator[CompletedCommand]:
    module = import_module(entry.module)
    below: Mapping[str, Command] = getattr(module, "SUBCOMMANDS", None) or {}
    summaries = {name: each.summary for name, each in below.items()}
    options, values = _read(words, module)
    yield CompletedCommand(
        words=words,
        summary=entry.summary,
        options=options,
        subcommands=summaries,
        values=() if below else values,
    )
    for name, each in below.items():
        yield from _commands((*words, name), each)


def _read(words: tuple[str, ...], module: ModuleType) -> tuple[tuple[Option, ...], tuple[str, ...]]:
    """Return the options of a command, and the known values of its first argument."""
    parser = make_parser(f"keyferry {' '.join(words)}", module)
    options: list[Option] = []
    first: tuple[str, ...] | None = None
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        if action.option_strings:
            options += _options(words, action)
        elif first is None:
            first = _values(words, action)
    return tuple(options), first or ()


def _options(words: tuple[str, ...], action: argparse.Action) -> Iterator[Option]:
    short = next((name for name in action.option_strings if not name.startswith("--")), "")
    text = (action.help or "").split(" (")[0]
    for name in action.option_strings:
        if name.startswith("--"):
            yield Option(
                name=name,
                short=short,
                help=text,
                takes_value=action.nargs != 0,
                values=_values(words, action),
            )


def _values(words: tuple[str, ...], action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.dest == "context":
        return CONTEXTS
    if action.metavar == "CODE" or "--list" in action.option_strings:
        return _codes(words)
    if words == ("plugin", "install") and not action.option_strings:
        return tuple(PLUGINS)
    return ()


def _codes(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes of the conformance kit, or those of lint."""
    if words[0] == "plugin":
        return tuple(CHECKS)
    return tuple(CODES)


def plain(text: str) -> str:
    """Return a help text without the characters that a shell would interpret."""
    return "".join(char for char in text if char not in "'[]:\\`$\"\n")
