"""The agent's log: one line for each event on standard error, as text or as JSON, and never a secret."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from keyferry._core.secrets import printable
from keyferry.api.meta import format_instant

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_MILLISECOND = 1_000_000
_SELDOM_SECONDS = 1.0
_MAX_SELDOM = 1000
_NO_DESCRIPTOR = {errno.EMFILE: "of this process", errno.ENFILE: "of this machine"}
_OWN_CODE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class LogLevel(StrEnum):
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
        self._seldom: dict[str, _Seldom] = {}
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
        """Write an event that others can cause at will, at most once a second for each *key*.

        Of those that come too soon, the last is written by ``sweep``, with the number of those left out.
        """
        now = time.monotonic()
        before = self._seldom.get(key)
        if before is not None and now - before.at < _SELDOM_SECONDS:
            before.number += 1
            before.last = (level, event, fields)
            return
        if len(self._seldom) >= _MAX_SELDOM:
            self._seldom.clear()
        self._seldom[key] = _Seldom(now)
        left_out = before.number if before is not None else 0
        self.write(level, event, **fields, left_out=left_out or None)

    def sweep(self, *, is_last: bool = False) -> None:
        """Write what was held back a second ago; called every second, and at the end for all."""
        now = time.monotonic()
        for key, before in list(self._seldom.items()):
            if now - before.at < _SELDOM_SECONDS and not is_last:
                continue
            del self._seldom[key]
            if before.last is not None:
                self._seldom[key] = _Seldom(now)
                level, event, fields = before.last
                self.write(level, event, **fields, left_out=before.number - 1 or None)


class _Seldom:
    """When an event was written, how often it came too soon after that, and the last of those."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.number = 0
        self.last: tuple[LogLevel, str, dict[str, object]] | None = None


def loop_error_logger(log: AgentLog) -> Callable[[AbstractEventLoop, Mapping[str, object]], None]:
    """Return a handler for errors that reach an event loop: one line, at most once a second for each place.

    The text of an error that nobody expected may have a secret in it, so its class and its place are written alone.
    """

    def write(_loop: AbstractEventLoop, context: Mapping[str, object]) -> None:
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


class _AsyncioHandler(logging.Handler):
    """Writes what asyncio logs, without its values, which may have a secret in them."""

    def __init__(self, log: AgentLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, at most once a second for each place."""
        place = f"{record.filename}:{record.lineno}"
        self._log.write_seldom(LogLevel.WARNING, place, "asyncio", message=record.msg, place=place)


def take_asyncio_log(log: AgentLog) -> None:
    """Have asyncio write to *log* instead of to standard error."""
    logger = logging.getLogger("asyncio")
    logger.handlers = [_AsyncioHandler(log)]
    logger.propagate = False


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
