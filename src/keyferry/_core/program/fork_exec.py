"""Start a program by the private CPython call that Popen makes, in versions for which its arguments are known."""

import os
import sys
from itertools import starmap

from keyferry._core.program.pipes import NO_FD, closer, make_pipe

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CAN_FORK_EXEC", "REPORT_BYTES", "begin", "could_not_begin", "fork_exec"]

# The last arguments, by version: no preexec function, and up to 3.13 permission to use vfork.
_LAST = {11: (None, True), 12: (None, True), 13: (None, True), 14: (None,)}.get(sys.version_info.minor, ())
CAN_FORK_EXEC = sys.platform == "linux" and sys.implementation.name == "cpython" and bool(_LAST)
_FAILED_STATUS = 255
# A report is shorter than this.
REPORT_BYTES = 64
# As in os.fsencode.
_ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
if CAN_FORK_EXEC:
    import _posixsubprocess

    _fork_exec: "Callable[..., int]" = _posixsubprocess.fork_exec


def fork_exec(
    pids: list[int],
    path: str | None,
    argv: "Sequence[str]",
    environ: "Mapping[bytes, bytes] | None",
    streams: "Sequence[int]",
    *,
    own_session: bool,
    kept_fds: "Sequence[int]" = (),
) -> None:
    """Start a program and append its process id to *pids*; raise as ``Popen`` does if it cannot be started."""
    complaint, ends = b"", [NO_FD]
    closing = closer(ends)
    report = make_pipe()
    try:
        ends.extend(report)
        begin(pids, path, argv, environ, streams, report, own_session=own_session, kept_fds=kept_fds)
        os.close(ends.pop())
        # The write end in the new process is closed when the program starts.
        while part := os.read(report[0], 64):
            complaint += part
    finally:
        any(closing)
    if complaint:
        raise _failure(pids, complaint, path or argv[0])


def begin(  # noqa: PLR0917 - as in Popen, and the pipe
    pids: list[int],
    path: str | None,
    argv: "Sequence[str]",
    environ: "Mapping[bytes, bytes] | None",
    streams: "Sequence[int]",
    report: tuple[int, int],
    *,
    own_session: bool,
    kept_fds: "Sequence[int]" = (),
) -> None:
    """Start a program as ``fork_exec`` does, but raise nothing if it cannot be executed.

    In that case, the process writes the reason to *report*, the read end and the write end of a pipe, and exits; see
    ``could_not_begin``.
    """
    program = path or argv[0]
    sys.audit("subprocess.Popen", program, argv, None, environ)
    paths = (program.encode(*_ENCODING),) if "/" in program else _candidates(program, environ)
    arguments = (
        argv, paths, True, (*sorted((*kept_fds, report[1])),), None,
        _variables(environ), streams[0], -1, -1, streams[1], -1, streams[2], *report,
        True, own_session, -1, None, None, None, -1, *_LAST,
    )  # fmt: skip
    # Called by C code, which also appends the process id. In Python code a signal handler could raise in between,
    # and nobody could terminate the program.
    pids.extend(starmap(_fork_exec, (arguments,)))


def could_not_begin(status: int | None, reported: bytes) -> bool:
    """Return whether a program has not been executed, by its exit status, if that is known, and its report.

    The report has the form "OSError:2:", with the number of the error in hexadecimal. A program that has been executed
    may have written the same.
    """
    kind, _, rest = reported.partition(b":")
    number, _, detail = rest.partition(b":")
    is_report = kind == b"OSError" and not number.strip(b"0123456789abcdef") and detail in (b"", b"noexec")
    return status in (_FAILED_STATUS, None) and bool(number) and is_report


def _candidates(program: str, environ: "Mapping[bytes, bytes] | None") -> "Sequence[bytes]":
    folders = os.get_exec_path(environ)  # type: ignore[arg-type]  # it takes bytes as well
    return [os.fsencode(os.path.join(folder, program)) for folder in folders]


def _variables(environ: "Mapping[bytes, bytes] | None") -> "Sequence[bytes] | None":
    global _last  # noqa: PLW0603 - one pair, replaced in one step
    if environ is None:
        return None
    # In one step: another thread may change the environment of this process.
    now = dict(environ)
    before, variables = _last
    if now == before:
        return variables
    if any(b"=" in name for name in now):  # tested and joined as in Popen: a name can override operators
        raise ValueError("illegal environment variable name")
    variables = [name + b"=" + value for name, value in now.items()]
    _last = now, variables
    return variables


# The environment of the last program, and the same in the form that the call takes: it is mostly that of the next one.
_last: "tuple[Mapping[bytes, bytes], Sequence[bytes]]" = {}, []


def _failure(pids: list[int], complaint: bytes, program: str) -> OSError:
    try:
        os.waitpid(pids[0], 0)
    except ChildProcessError:
        pass
    pids.clear()
    number = int(complaint.split(b":")[1], 16)
    return OSError(number, os.strerror(number), program)
