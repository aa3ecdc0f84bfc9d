"""The report of a process whose program cannot be executed: by a pipe of its own, or by standard error."""

from __future__ import annotations

import os

from keyferry._core.program.fork_exec import fork_exec
from keyferry._core.program.pipes import NO_FD, closer, make_pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["REPORT_BYTES", "could_not_begin", "fork_exec_or_raise"]

# A report is shorter than this.
REPORT_BYTES = 64
_FAILED_STATUS = 255


def fork_exec_or_raise(
    pids: list[int],
    path: str | None,
    argv: Sequence[str],
    environ: Mapping[bytes, bytes] | None,
    streams: Sequence[int],
    *,
    own_session: bool,
    kept_fds: Sequence[int] = (),
) -> None:
    """Start a program and append its process id to *pids*; raise as ``Popen`` does if it cannot be started."""
    complaint, ends = b"", [NO_FD]
    closing = closer(ends)
    report = make_pipe()
    try:
        ends.extend(report)
        fork_exec(pids, path, argv, environ, streams, report, own_session=own_session, kept_fds=kept_fds)
        os.close(ends.pop())
        # The write end in the new process is closed when the program starts.
        while part := os.read(report[0], REPORT_BYTES):
            complaint += part
    finally:
        any(closing)
    if complaint:
        raise _failure(pids, complaint, path or argv[0])


def could_not_begin(status: int | None, reported: bytes) -> bool:
    """Return whether a program has not been executed, by its exit status, if that is known, and its report.

    The report has the form "OSError:2:", with the number of the error in hexadecimal. A program that has been executed
    may have written the same.
    """
    kind, _, rest = reported.partition(b":")
    number, _, detail = rest.partition(b":")
    is_report = kind == b"OSError" and not number.strip(b"0123456789abcdef") and detail in (b"", b"noexec")
    return status in (_FAILED_STATUS, None) and bool(number) and is_report


def _failure(pids: list[int], complaint: bytes, program: str) -> OSError:
    try:
        os.waitpid(pids[0], 0)
    except ChildProcessError:
        pass
    pids.clear()
    number = int(complaint.split(b":")[1], 16)
    return OSError(number, os.strerror(number), program)
