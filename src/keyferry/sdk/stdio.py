"""A plugin's standard streams: the request, and a standard output that only the response can reach."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from select import select

from keyferry._core.files import is_open, write_all
from keyferry._core.gotext import go_strerror
from keyferry._core.secrets import MASK, printable
from keyferry.errors import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

MAX_REQUEST_BYTES = 4 * 1024 * 1024
_CHUNK = 65536
FAILED = 1
INTERRUPTED = 130
_MAX_STATUS = 255
_MIN_SECRET = 4
_MAX_TEXT = 300


def deliver(make_answer: Callable[[], bytes], known: Sequence[str] = ()) -> Never:
    """Write the result of *make_answer* to standard output and exit; an exception becomes a message and a status.

    *known* are secrets that messages must not show; it may grow while *make_answer* runs.
    """
    kept = guard_stdout()
    program = program_name()
    try:
        answer = make_answer()
    except KeyboardInterrupt:
        report(program, ProvideError("interrupted"))
        leave(INTERRUPTED)
    except SystemExit as stop:
        report(program, ProvideError(_last_words(stop)), known)
        leave(_status(stop))
    except BaseException as error:  # noqa: BLE001 - for any exception the caller gets a message and a status
        report(program, error, known)
        leave(FAILED)
    if not try_write(kept, answer):
        report(program, ProvideError("the response cannot be written: standard output has no reader"))
        leave(FAILED)
    leave(0)


def guard_stdout() -> int:
    """Reserve standard output for the response; return its descriptor, or -1 if there is none.

    From now on descriptor 1 is standard error. A stray ``print``, a logger, a C library and a child process all write
    there, where the kubelet shows the text if the plugin fails, and cannot damage the response.
    """
    has_stdout = is_open(1)
    _fill_gaps()
    kept = os.dup(1) if has_stdout else -1
    os.dup2(2, 1)
    return kept


def _fill_gaps() -> None:
    """Open all three standard descriptors: otherwise the next file or socket would get a free one."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # standard error
        os.set_inheritable(fd, True)
    os.close(fd)


def read_request_bytes(program: str, usage: str) -> bytes:
    """Return all of standard input; raise ProvideError if it is a terminal, empty, unreadable or too long."""
    if os.isatty(0):
        raise ProvideError(
            f"{program} is run by a program that writes a request to its standard input", usage
        )
    try:
        data = b"".join(_read_pieces())
    except OSError as error:
        raise ProvideError(f"standard input cannot be read: {go_strerror(error)}", usage) from None
    if not data.strip():
        raise ProvideError("standard input is empty or closed, expected a request", usage)
    return data


def _read_pieces() -> Iterator[bytes]:
    size = 0
    while piece := _read_piece():
        size += len(piece)
        if size > MAX_REQUEST_BYTES:
            raise ProvideError(f"the request on standard input is longer than {MAX_REQUEST_BYTES} bytes")
        yield piece


def _read_piece() -> bytes:
    while True:
        try:
            return os.read(0, _CHUNK)
        except BlockingIOError:
            # The parent process made the pipe non-blocking, and shares it.
            select([0], [], [])


def try_write(fd: int, data: bytes) -> bool:
    """Write *data*; return False if the reader is gone."""
    try:
        write_all(fd, data)
    except OSError:
        return False
    return True


def report(program: str, error: BaseException, known: Sequence[str] = ()) -> None:
    """Write the reason of a failure to standard error.

    The text of a ProvideError comes from its author, and is shown except for *known* secrets. In the text of any other
    exception everything that may be a value is masked.
    """
    if isinstance(error, ProvideError):
        lines = [error.message, *([error.hint] if error.hint else [])]
        if error.retry_after_seconds > 0:
            # The last line, in this form: the node agent reads it.
            lines.append(f"retry after {error.retry_after_seconds} s")
    else:
        # A bug in the plugin: the position is helpful, but the values may be secret.
        lines = [f"{type(error).__name__} in the plugin itself{_place(error)}{_text(error)}"]
    text = "".join(f"{printable(f'{program}: {line}')}\n" for line in lines)
    for secret in known:
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, MASK)
    try_write(2, text.encode("utf-8", "backslashreplace"))


def _text(error: BaseException) -> str:
    """Return the text of an exception; quoted parts are masked, except in an OSError, which quotes file names."""
    from keyferry.sdk.messages import shown

    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its __str__ may raise anything
        text = ""
    if not isinstance(error, OSError):
        text = re.sub(r"(?s)(?<!\w)(?:'[^']*'|\"[^\"]*\")(?!\w)", MASK, text[: 8 * _MAX_TEXT])
    return f": {shown(text, _MAX_TEXT)}" if text else ""


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f" ({os.path.basename(code.co_filename)}, line {trace.tb_lineno}, in {code.co_name})"


def _last_words(stop: SystemExit) -> str:
    if isinstance(stop.code, str) and stop.code.strip():
        return stop.code
    return "the plugin exited without a response"


def _status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) and 0 < stop.code <= _MAX_STATUS else FAILED


def leave(status: int) -> Never:
    """Flush the standard streams and exit with *status*."""
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            # Stray output without a reader is dropped; otherwise Python would fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
    # The process ends, so the interpreter need not search what is left for garbage.
    gc.freeze()
    sys.exit(status)


def program_name() -> str:
    """Return the name by which this program was started."""
    path = sys.argv[0] if sys.argv else ""
    if os.path.basename(path) == "__main__.py":
        path = os.path.dirname(path)
    return os.path.basename(path) if path not in ("", "-c", "-m") else "plugin"
