"""A plugin's standard streams: what it is asked, and a standard output that only the answer can reach."""

import os
import sys

from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from typing import Never

__all__ = ["guard_stdout", "leave", "read_request_bytes", "report", "write_all"]

MOST_REQUEST_BYTES = 4 * 1024 * 1024
_CHUNK = 65536
FAILED = 1


def guard_stdout() -> int:
    """Keep standard output for the answer, and give its descriptor.

    From now on descriptor 1 is standard error: a stray ``print``, a logger, a C library and a child process all
    end up there, where the kubelet shows them if the plugin fails, and cannot spoil the answer.
    """
    try:
        kept = os.dup(1)
    except OSError:
        return -1
    os.set_inheritable(kept, False)
    try:
        os.dup2(2, 1)
    except OSError:
        # No standard error: then stray output goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return kept


def read_request_bytes(program: str, usage: str) -> bytes:
    """All of standard input; raises ProvideError where nobody is there to write it, or for far too much."""
    try:
        is_terminal = os.isatty(0)
        data = b"" if is_terminal else _read_all()
    except OSError:
        raise ProvideError("standard input is closed, and a request was expected on it", usage) from None
    if is_terminal:
        raise ProvideError(
            f"{program} is run by a program that writes a request to its standard input", usage
        )
    if not data.strip():
        raise ProvideError("standard input is empty, and a request was expected on it", usage)
    return data


def _read_all() -> bytes:
    pieces, size = [], 0
    while piece := os.read(0, _CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_REQUEST_BYTES:
            raise ProvideError(f"the request on standard input is longer than {MOST_REQUEST_BYTES} bytes")
    return b"".join(pieces)


def write_all(fd: int, data: bytes) -> bool:
    """Write *data*; False if whoever should read it is gone."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return False
    return True


def report(program: str, error: Exception) -> None:
    """Say on standard error why there is no answer; nothing that looks like a secret gets through."""
    from keyferry._secret import printable, redact

    if isinstance(error, ProvideError):
        lines = [error.message, *([error.hint] if error.hint else [])]
    else:
        # A bug of the plugin's author: where it happened helps, what the values were may be a secret.
        lines = [f"{type(error).__name__} in the plugin itself{_place(error)}: {redact(str(error))}"]
    text = "".join(f"{program}: {printable(line)}\n" for line in lines)
    write_all(2, text.encode("utf-8", "backslashreplace"))


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f" ({os.path.basename(code.co_filename)}, line {trace.tb_lineno}, in {code.co_name})"


def leave(status: int) -> "Never":
    """End the program."""
    sys.exit(status)


def program_name() -> str:
    """The name this program was started by."""
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "plugin"
