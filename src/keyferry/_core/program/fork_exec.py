"""Start a program by the private CPython call that Popen makes, in versions for which its arguments are known."""

from __future__ import annotations

import os
import sys
from itertools import starmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CAN_FORK_EXEC", "fork_exec"]

# The last arguments, by version: no preexec function, and up to 3.13 permission to use vfork.
_LAST = {11: (None, True), 12: (None, True), 13: (None, True), 14: (None,)}.get(sys.version_info.minor, ())
CAN_FORK_EXEC = sys.platform == "linux" and sys.implementation.name == "cpython" and bool(_LAST)
# As in os.fsencode.
_ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
if CAN_FORK_EXEC:
    import _posixsubprocess

    _fork_exec: Callable[..., int] = _posixsubprocess.fork_exec


def fork_exec(  # noqa: PLR0917 - as in Popen, and the pipe
    pids: list[int],
    path: str | None,
    argv: Sequence[str],
    environ: Mapping[bytes, bytes] | None,
    streams: Sequence[int],
    report: tuple[int, int],
    *,
    own_session: bool,
    kept_fds: Sequence[int] = (),
) -> None:
    """Start a program and append its process id to *pids*; if it cannot be executed, the process reports that.

    It writes the reason to *report*, the read end and the write end of a pipe, and exits.
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


def _candidates(program: str, environ: Mapping[bytes, bytes] | None) -> Sequence[bytes]:
    folders = os.get_exec_path(environ)  # type: ignore[arg-type]  # it takes bytes as well
    return [os.fsencode(os.path.join(folder, program)) for folder in folders]


def _variables(environ: Mapping[bytes, bytes] | None) -> Sequence[bytes] | None:
    global _last  # noqa: PLW0603 - one pair, replaced in one step
    if environ is None:
        return None
    now = dict(environ)  # in one step: another thread may change the environment of this process
    before, variables = _last
    if now == before:
        return variables
    if any(b"=" in name for name in now):  # tested and joined as in Popen: a name can override operators
        raise ValueError("illegal environment variable name")
    variables = [name + b"=" + value for name, value in now.items()]
    _last = now, variables
    return variables


# The environment of the last program, and the same in the form that the call takes: it is mostly that of the next one.
_last: tuple[Mapping[bytes, bytes], Sequence[bytes]] = {}, []
