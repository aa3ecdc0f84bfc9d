"""Command line flags as Go's programs parse them.

The forms are ``--name value``, ``--name=value``, ``-n value``, ``-n=value`` and, for switches, ``--name`` and
``--name=false``. Flags and words can be in any order; after ``--`` all arguments are words.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from keyferry import __version__
from keyferry._core.values import Value
from keyferry.api.meta import parse_duration
from keyferry.errors import DurationError, ProvideError
from keyferry.sdk.stdio import leave, program_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

__all__ = ["LOG_FLAGS", "Flag", "Flags", "parse_flags", "read_flags", "read_seconds"]

USAGE = 2
_TRUE, _FALSE = ("true", "1", "t", "T", "TRUE", "True"), ("false", "0", "f", "F", "FALSE", "False")


class Flag(Value):
    """One flag: its name without dashes, its help text, and its form.

    A flag that *is_switch* needs no value. One that *is_ignored* is accepted without effect, and is not shown in the
    help.
    """

    name: str
    about: str = ""
    default: str = ""
    short: str = ""
    is_switch: bool = False
    is_repeated: bool = False
    is_ignored: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_LOG_TEXTS = ("vmodule", "log-dir", "log-file", "log-file-max-size", "log-backtrace-at", "stderrthreshold")
_LOG_SWITCHES = (
    "logtostderr",
    "alsologtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "add-dir-header",
)
# The flags of klog, which Kubernetes' own programs have and existing configs use.
LOG_FLAGS = (
    Flag(name="v", short="v", is_ignored=True),
    *(Flag(name=name, is_ignored=True) for name in _LOG_TEXTS),
    *(Flag(name=name, is_ignored=True, is_switch=True) for name in _LOG_SWITCHES),
)


class Flags(Value):
    """The parsed arguments: the values by flag, the words, and the names of the flags that were given."""

    values: Mapping[str, tuple[str, ...]]
    words: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """Return the last value of a flag, or its default."""
        return self.values[name][-1] if self.values[name] else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a repeated flag."""
        return self.values[name]

    def is_on(self, name: str) -> bool:
        """Return whether a switch is on."""
        return self.text(name) in _TRUE


def read_flags(
    flags: Sequence[Flag], about: str, *, words: str = "", argv: Sequence[str] | None = None
) -> Flags:
    """Return this program's flags; ``--help`` and ``--version`` print their text and exit.

    The help starts with *about*, and shows *words* in place of the words. An invalid argument ends the program with a
    message on standard error and exit status 2.
    """
    argv = sys.argv[1:] if argv is None else argv
    program = program_name()
    if any(word in ("--help", "-h", "-help") for word in _before_dashes(argv)):
        _say(1, _help(flags, program, about, words), 0)
    if "--version" in _before_dashes(argv):
        _say(1, f"{program} (keyferry {__version__})\n", 0)
    try:
        return parse_flags(flags, argv)
    except ProvideError as error:
        _say(2, f"{program}: {error}\n", USAGE)


def _say(fd: int, text: str, status: int) -> Never:
    """Write *text*, ignore errors, and exit with *status*."""
    stream = sys.stdout if fd == 1 else sys.stderr
    try:
        if stream is not None:
            stream.write(text)
    except (OSError, ValueError):
        pass
    leave(status)


def parse_flags(flags: Sequence[Flag], argv: Sequence[str]) -> Flags:
    """Parse *argv*; raise ProvideError for an unknown flag, a missing value or an invalid one."""
    known = _by_spelling(flags)
    values: dict[str, list[str]] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        flag, value = _take(known, word, rest)
        values.setdefault(flag.name, []).append(value)
    complete = {
        flag.name: tuple(values.get(flag.name) or ([flag.default] if flag.default else [])) for flag in flags
    }
    return Flags(values=complete, words=tuple(words), given=frozenset(values))


def _by_spelling(flags: Sequence[Flag]) -> dict[str, Flag]:
    known: dict[str, Flag] = {}
    for flag in flags:
        for name in (flag.name, *flag.aliases):
            # With one dash or two, as in Go's flag package; klog's names with dashes or underscores.
            known.update({f"--{name}": flag, f"--{name.replace('-', '_')}": flag})
            if len(name) > 1:
                known.setdefault(f"-{name}", flag)
        if flag.short:
            known[f"-{flag.short}"] = flag
    return known


def _take(known: dict[str, Flag], word: str, rest: list[str]) -> tuple[Flag, str]:
    name, equals, value = word.partition("=")
    flag = known.get(name)
    if flag is None:
        raise ProvideError(f"unknown flag {name!r}", f"'{program_name()} --help' lists all flags")
    if flag.is_switch:
        value = value if equals else "true"
        if value not in (*_TRUE, *_FALSE):
            raise ProvideError(f"flag {name}: found {value!r}, expected true or false")
    elif not equals:
        if not rest:
            raise ProvideError(f"flag {name} needs a value")
        value = rest.pop(0)
    if flag.choices and value not in flag.choices:
        raise ProvideError(f"flag {name}: found {value!r}, expected one of {', '.join(flag.choices)}")
    return flag, value


def _before_dashes(argv: Sequence[str]) -> Sequence[str]:
    return argv[: list(argv).index("--")] if "--" in argv else argv


def _help(flags: Sequence[Flag], program: str, about: str, words: str) -> str:
    shown = [flag for flag in flags if not flag.is_ignored]
    names = [
        (f"-{flag.short}, " if flag.short else "") + f"--{flag.name}" + ("" if flag.is_switch else " VALUE")
        for flag in shown
    ]
    names += ["--version", "--help"]
    texts = [flag.about + (f" (default {flag.default})" if flag.default else "") for flag in shown]
    texts += ["print the version and exit", "print this help and exit"]
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {text}" for name, text in zip(names, texts, strict=True)]
    usage = " ".join(part for part in ("usage:", program, "[FLAGS]", words) if part)
    return "\n".join([usage, "", about.rstrip(), "", "flags:", *lines, ""])


def read_seconds(
    name: str,
    text: str,
    *,
    expected: str = "such as 50s",
    is_zero_allowed: bool = False,
    max_seconds: float = float("inf"),
) -> float:
    """Return the seconds of *text*, a duration in Go's syntax that is the value of the flag or variable *name*.

    Raise ProvideError if it is no duration, negative or longer than *max_seconds*, or 0 and that is not allowed.
    """
    try:
        seconds = parse_duration(text) / 1e9
    except DurationError:
        seconds = -1.0
    if 0 < seconds <= max_seconds or (seconds == 0 and is_zero_allowed):
        return seconds
    raise ProvideError(f"{name}: found {text[:40]!r}, expected a duration {expected}")
