"""The agent's log: one line for each event on standard error, as text or as JSON, and never a secret."""

import errno
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, TextIO

from keyferry._core.secrets import printable
from keyferry._core.word_enum import WordEnum
from keyferry.api.meta import format_instant

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping

__all__ = ["AgentLog", "LogLevel", "loop_error_logger", "place_of"]

_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
_NO_DESCRIPTOR = {errno.EMFILE: "of this process", errno.ENFILE: "of this machine"}
_OWN_CODE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class LogLevel(WordEnum):
    """How much is logged, from most to least."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_ORDER = tuple(LogLevel)


class AgentLog:
    """Writes events with their fields; what comes from elsewhere is made harmless for terminals."""

    def __init__(
        self, level: LogLevel = LogLevel.INFO, *, is_json: bool = False, stream: TextIO | None = None
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._last: dict[str, float] = {}
        self.configure(level, is_json=is_json)

    def configure(self, level: LogLevel, *, is_json: bool) -> None:
        """Change the level and the format."""
        self.is_debugging = level is LogLevel.DEBUG
        self._written = frozenset(_ORDER[_ORDER.index(level) :])
        self._is_json = is_json

    def write(self, level: LogLevel, event: str, **fields: object) -> None:
        """Write one event, unless its level is below that of the log."""
        if level not in self._written:
            return
        instant = format_instant(time.time_ns() // _MILLISECOND * _MILLISECOND)
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        if self._is_json:
            line = json.dumps({"time": instant, "level": str(level), "event": event, **given}, default=str)
        else:
            words = "".join(f" {name}={_quoted(value)}" for name, value in given.items())
            line = f"{instant} {level} {event}{words}"
        try:
            self._stream.write(printable(line) + "\n")
            self._stream.flush()
        except OSError:
            pass  # there is no other place to say so, and lookups do not depend on it

    def write_seldom(self, level: LogLevel, key: str, event: str, **fields: object) -> None:
        """Write an event that others can cause at will, at most once a second for each *key*."""
        now = time.monotonic()
        if now - self._last.get(key, -1.0) < 1.0:
            return
        if len(self._last) > 1000:
            self._last.clear()
        self._last[key] = now
        self.write(level, event, **fields)


def loop_error_logger(log: AgentLog) -> "Callable[[AbstractEventLoop, Mapping[str, object]], None]":
    """Return a handler for errors that reach an event loop: one line, at most once a second for each place.

    The text of an error that nobody expected may have a secret in it, so its class and its place are written alone.
    """

    def write(_loop: "AbstractEventLoop", context: "Mapping[str, object]") -> None:
        error = context.get("exception")
        whose = _NO_DESCRIPTOR.get(error.errno or 0) if isinstance(error, OSError) else None
        if whose:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if whose == "of this process" else None
            event = f"no descriptor is free: the limit {whose} is reached; clients wait"
            log.write_seldom(LogLevel.WARNING, event, event, limit=limit)
            return
        kind, place = "", ""
        if isinstance(error, BaseException):
            kind, place = type(error).__name__, place_of(error)
        key = f"{kind} {place}"
        log.write_seldom(LogLevel.ERROR, key, "unexpected error", error=kind, place=place)

    return write


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(each in text for each in ' "=\n') else text


def place_of(error: BaseException) -> str:
    """Return where an error was raised, without values: ``agent/service.py:12`` in keyferry's own code, if it is there.

    Else it is the file and line of other code; empty if the error was not raised.
    """
    place, frames, is_own = "", error.__traceback__, False
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if name.startswith(_OWN_CODE):
            place, is_own = f"{name.removeprefix(_OWN_CODE)}:{frames.tb_lineno}", True
        elif not is_own:
            place = f"{os.path.basename(name)}:{frames.tb_lineno}"
        frames = frames.tb_next
    return place
