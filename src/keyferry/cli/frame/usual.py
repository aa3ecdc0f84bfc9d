"""A reader of ordinary command lines that does not import argparse.

Importing argparse and building a parser takes several milliseconds, and most command lines neither ask for
help nor have a mistake. A command declares its arguments here as it does to argparse. All other command
lines are left to argparse: help, options that exclude each other, ``-ojson``, and any mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Arguments", "Declarations", "read_usual"]

# Values of nargs, as in argparse.
_OPTIONAL, _ANY, _SOME, _REST = "?", "*", "+", "..."


class Arguments:
    """The values of a command's arguments, as attributes."""


class _Unusual(Exception):
    """The command line has something that argparse must handle."""


class _Argument:
    """A declared argument, with argparse's settings."""

    def __init__(self, dest: str, given: Mapping[str, Any], *, is_rival: bool) -> None:
        self.dest = dest
        self.action: str = given.get("action", "store")
        self.nargs: str | None = given.get("nargs")
        self.required: bool = given.get("required", False)
        self.is_rival = is_rival
        self._type: Callable[[str], object] = given.get("type", str)
        self._choices: Collection[object] | None = given.get("choices")

    def convert(self, word: str) -> object:
        """Return *word* converted to the argument's type; raise _Unusual if it cannot be converted."""
        try:
            return self._type(word)
        except Exception:  # noqa: BLE001 - argparse converts it again and reports the error
            raise _Unusual from None

    def read(self, word: str) -> object:
        """Return *word* converted to the argument's type; raise _Unusual if it is not one of the choices."""
        value = self.convert(word)
        if self._choices is not None and value not in self._choices:
            raise _Unusual
        return value


class Declarations:
    """The arguments of one command, declared through the methods of an argparse parser or group."""

    def __init__(self, *, is_exclusive: bool = False) -> None:
        self.options: dict[str, _Argument] = {}
        self.positionals: list[_Argument] = []
        self.defaults: dict[str, object] = {}
        self._is_exclusive = is_exclusive

    def set_defaults(self, **defaults: object) -> None:
        """Set attributes that no argument changes."""
        self.defaults.update(defaults)

    def add_argument_group(self, _title: str) -> Declarations:
        """Return this object: groups only affect the help."""
        return self

    def add_mutually_exclusive_group(self) -> Declarations:
        """Return a group of options of which at most one may be given."""
        group = Declarations(is_exclusive=True)
        group.options, group.positionals, group.defaults = self.options, self.positionals, self.defaults
        return group

    def add_argument(self, *names: str, **given: object) -> _Argument:
        """Declare an option by its spellings, or a positional argument by its name."""
        long = next((name for name in names if name.startswith("--")), names[0])
        dest = str(given.get("dest", long.lstrip("-").replace("-", "_")))
        argument = _Argument(dest, given, is_rival=self._is_exclusive)
        if "default" in given or dest not in self.defaults:
            self.defaults[dest] = given.get("default", False if argument.action == "store_true" else None)
        if names[0].startswith("-"):
            self.options.update(dict.fromkeys(names, argument))
        else:
            self.positionals.append(argument)
        return argument


def read_usual(declared: Declarations, words: Sequence[str]) -> Arguments | None:
    """Return the arguments in *words* as argparse would; None if argparse must read them."""
    arguments = Arguments()
    vars(arguments).update(declared.defaults)
    try:
        if "--" in words:
            raise _Unusual
        free, given = _read_options(declared, words, arguments)
        _read_positionals(declared.positionals, free, arguments)
        _complete(declared, given, arguments)
    except _Unusual:
        return None
    return arguments


def _read_options(
    declared: Declarations, words: Sequence[str], arguments: Arguments
) -> tuple[list[str], set[str]]:
    """Read the options; return the other words, and the names of the options that are given."""
    if any(argument.nargs == _REST for argument in declared.positionals):
        return list(words), set()
    free: list[str] = []
    given: set[str] = set()
    is_run = True
    left = iter(words)
    for word in left:
        if _is_option(word):
            given.add(_take_option(declared.options, word, left, arguments))
            is_run = not free
        elif is_run:
            free.append(word)
        else:
            # argparse takes the positional arguments from one run of words only.
            raise _Unusual
    return free, given


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _take_option(options: dict[str, _Argument], word: str, left: Iterator[str], arguments: Arguments) -> str:
    name, equals, value = word.partition("=")
    argument = options.get(name)
    if argument is None or argument.is_rival or argument.nargs is not None:
        raise _Unusual
    if argument.action == "store_true":
        if equals:
            raise _Unusual
        setattr(arguments, argument.dest, True)
        return argument.dest
    if not equals:
        value = next(left, "-")
    # "-o=json" and "--output=" have meanings of their own.
    if value.startswith("-") or (equals and not (value and name.startswith("--"))):
        raise _Unusual
    _store(argument, argument.read(value), arguments)
    return argument.dest


def _store(argument: _Argument, value: object, arguments: Arguments) -> None:
    if argument.action == "append":
        value = [*(getattr(arguments, argument.dest) or ()), value]
    elif argument.action != "store":
        raise _Unusual
    setattr(arguments, argument.dest, value)


def _read_positionals(positionals: list[_Argument], words: list[str], arguments: Arguments) -> None:
    left = words
    for argument in positionals:
        if argument.nargs in (_ANY, _SOME, _REST):
            taken, left = left, []
            if argument.nargs == _SOME and not taken:
                raise _Unusual
            if taken or argument.nargs == _REST or getattr(arguments, argument.dest) is None:
                setattr(arguments, argument.dest, [argument.read(word) for word in taken])
        elif left and not _is_option(left[0]):
            setattr(arguments, argument.dest, argument.read(left[0]))
            left = left[1:]
        elif argument.nargs != _OPTIONAL:
            raise _Unusual
    if left:
        raise _Unusual


def _complete(declared: Declarations, given: set[str], arguments: Arguments) -> None:
    """Convert the defaults of options that are not given; raise _Unusual if one of them is required."""
    for argument in declared.options.values():
        if argument.dest in given:
            continue
        if argument.required:
            raise _Unusual
        default = declared.defaults[argument.dest]
        # argparse converts a default that is a string as it converts a word.
        if isinstance(default, str):
            setattr(arguments, argument.dest, argument.convert(default))
