"""Replay a trace: respond as the recorded plugin did, with placeholders for the secrets."""

from __future__ import annotations

import signal

from keyferry._core.bounded import read_path
from keyferry._core.clock import time_ns
from keyferry._core.gotext import go_strerror
from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry.api.meta import format_instant, parse_time
from keyferry.errors import DocumentError, EnvironmentProblem, TimeError
from keyferry.kit.trace.record import KIND
from keyferry.show.documents import API_VERSION

__all__ = ["Replay", "load_trace", "replay"]

_LARGEST_FILE = 64 * 1024 * 1024
_SECOND = 1_000_000_000
# The end of the year 9999; later times cannot be written in RFC 3339.
_END_NS = 253_402_300_800 * _SECOND


class Replay(Value):
    """The output and the exit status of a replay."""

    stdout: str = field(repr=False)
    stderr: str
    status: int


def load_trace(path: str) -> dict[str, object]:
    """Read a trace; raise EnvironmentProblem if the file is not one."""
    try:
        document = loads(read_path(path, _LARGEST_FILE))
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{path} cannot be read: {go_strerror(error)}") from None
    except DocumentError as error:
        raise EnvironmentProblem(f"{path} is not a trace: {error.message}") from None
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (
        API_VERSION,
        KIND,
    ):
        raise EnvironmentProblem(f"{path} is not a trace, expected kind {KIND} of {API_VERSION}")
    return document


def replay(trace: dict[str, object], now_ns: int | None = None) -> Replay:
    """Return the output of a trace's plugin; its expiry has the same distance from now as when it was recorded."""
    now = time_ns() if now_ns is None else now_ns
    stdout = trace.get("stdout")
    text = ""
    if isinstance(stdout, dict):
        document = stdout.get("document")
        if isinstance(document, dict):
            text = dumps(_shift(document, trace, now)) + "\n"
        else:
            text = str(stdout.get("skeleton") or "")
    lines = trace.get("stderr")
    said = "".join(f"{line}\n" for line in lines) if isinstance(lines, list) else ""
    return Replay(stdout=text, stderr=said, status=_status(trace))


def _status(trace: dict[str, object]) -> int:
    """Return the exit status; 128 and the signal's number for a signal, as a shell reports it."""
    status = trace.get("status")
    if trace.get("ending") != "exited" or not isinstance(status, int):
        return 128 + signal.SIGKILL
    return status if status >= 0 else 128 - status


def _shift(document: dict[str, object], trace: dict[str, object], now_ns: int) -> dict[str, object]:
    status, recorded = document.get("status"), trace.get("recordedAtSeconds")
    if not isinstance(status, dict) or not isinstance(recorded, int):
        return document
    try:
        then = parse_time(str(status.get("expirationTimestamp")))
    except TimeError:
        return document
    moved = then + (now_ns // _SECOND - recorded) * _SECOND
    if not 0 <= moved < _END_NS:
        return document
    return {**document, "status": {**status, "expirationTimestamp": format_instant(moved)}}
