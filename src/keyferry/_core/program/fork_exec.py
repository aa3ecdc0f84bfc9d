"""Start a program by the private CPython call that Popen makes, in versions for which its arguments are known."""

import os
import sys

from keyferry._core.program.pipes import make_pipe

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CAN_FORK_EXEC", "fork_exec"]

# The last arguments, by version: no preexec function, and up to 3.13 permission to use vfork.
_LAST = {11: (None, True), 12: (None, True), 13: (None, True), 14: (None,)}.get(sys.version_info.minor, ())
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
    """Start a program and return its process id; raise as ``Popen`` does if it cannot be started."""
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
        # The write end in the new process is closed when the program starts.
        while part := os.read(reader, 64):
            complaint += part
    finally:
        os.close(reader)
    if complaint:
        raise _failure(pid, complaint, program)
    return pid


def _candidates(program: str, environ: "Mapping[bytes, bytes] | None") -> "Sequence[bytes]":
    if "/" in program:
        return (os.fsencode(program),)
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


def _failure(pid: int, complaint: bytes, program: str) -> OSError:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    number = int(complaint.split(b":")[1], 16)
    return OSError(number, os.strerror(number), program)
