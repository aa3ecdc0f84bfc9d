"""Start a program by the call that ``subprocess.Popen`` is made of, without what stands around it.

The call is private to CPython. It is used in versions whose arguments are known; elsewhere there is ``Popen``.
"""

import os
import sys

from keyferry._core.program.pipes import make_pipe

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

__all__ = ["CAN_FORK_EXEC", "fork_exec"]

# By version, the arguments after the mask for new files: no function to call before, and that vfork may be used.
_LAST_ARGUMENTS: dict[tuple[int, int], tuple[object, ...]] = {
    (3, 11): (None, True),
    (3, 12): (None, True),
    (3, 13): (None, True),
    (3, 14): (None,),
}
_LAST = _LAST_ARGUMENTS.get(sys.version_info[:2], ())
CAN_FORK_EXEC = sys.platform == "linux" and sys.implementation.name == "cpython" and bool(_LAST)
if CAN_FORK_EXEC:
    import _posixsubprocess

    _fork_exec: "Callable[..., int]" = _posixsubprocess.fork_exec


def fork_exec(
    path: str | None,
    argv: "Sequence[str]",
    environ: "Mapping[bytes, bytes] | None",
    streams: tuple[int, int, int],
    *,
    own_session: bool,
    kept_fds: "Sequence[int]",
) -> int:
    """Start a program and return its process id; raises as ``Popen`` does if it cannot be started."""
    program = path or argv[0]
    sys.audit("subprocess.Popen", program, argv, None, environ)
    reader, writer = make_pipe()
    complaint = b""
    try:
        try:
            pid = _fork_exec(
                argv, _candidates(program, environ), True, (*sorted((*kept_fds, writer)),), None,
                _variables(environ), streams[0], -1, -1, streams[1], -1, streams[2], reader, writer,
                True, own_session, -1, None, None, None, -1, *_LAST,
            )  # fmt: skip
        finally:
            os.close(writer)
        # The program's own end of this pipe is closed when it starts.
        while part := os.read(reader, 64):
            complaint += part
    finally:
        os.close(reader)
    if complaint:
        _fail(pid, complaint, program)
    return pid


def _candidates(program: str, environ: "Mapping[bytes, bytes] | None") -> "Sequence[bytes]":
    if "/" in program:
        return (os.fsencode(program),)
    folders = os.get_exec_path(environ)  # type: ignore[arg-type]  # it takes bytes as well
    return [os.fsencode(os.path.join(folder, program)) for folder in folders]


def _variables(environ: "Mapping[bytes, bytes] | None") -> "Sequence[bytes] | None":
    if environ is None:
        return None
    if b"=" in b"".join(environ):
        raise ValueError("illegal environment variable name")
    # In one step: another thread may change our environment.
    return [*map(b"%b=%b".__mod__, environ.items())]


def _fail(pid: int, complaint: bytes, program: str) -> "NoReturn":
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    number = int(complaint.split(b":")[1], 16)
    raise OSError(number, os.strerror(number), program)
