"""Run a program on the caller's own streams, and collect only what it prints on standard output.

So client-go runs a plugin: its standard error goes straight through, and its
standard input is the terminal if it may ask questions, and nothing otherwise.
"""

import errno
import os
import select
import signal
import time
from collections.abc import Mapping
from math import isinf

from keyferry.invoke.process import CHUNK, Ending, Limits, Outcome
from keyferry.invoke.reap import (
    DEATH_SECONDS,
    await_exit,
    collect_stragglers,
    kill_group,
    left_to_collect,
    milliseconds_until,
)
from keyferry.invoke.spawn import LAST_STANDARD_FD, close_beyond, make_pipe, move_up, start

# Where a program that is an open file stands in the child. It stays open there: of a script the
# kernel gives its interpreter this name, /proc/self/fd/3, to open once more.
_PROGRAM_FD = 3


def run_attached(  # noqa: PLR0913 - each is a different thing to say about a run
    argv: tuple[str, ...],
    *,
    program: str | int,
    environ: Mapping[bytes, bytes],
    limits: Limits = Limits(),  # noqa: B008 - frozen
    stdin_fd: int | None = None,
    stderr_fd: int = LAST_STANDARD_FD,
) -> Outcome:
    """Run *program*, a path or on Linux an open file; raises OSError or ValueError if it does not start.

    Without *stdin_fd* its input is empty and it has a session of its own. With it the program stays in
    this one, or it could not read from the terminal.
    """
    if not hasattr(os, "posix_spawn"):
        return _run_elsewhere(argv, program, environ, limits, stdin_fd, stderr_fd)
    started = time.monotonic()
    collect_stragglers()
    pid, stdout_fd = _spawn(argv, program, environ, stdin_fd, stderr_fd)
    deadline = started + limits.timeout_seconds
    output = bytearray()
    status: int | None = None
    ending = Ending.TIMED_OUT
    try:
        ending = _collect(stdout_fd, output, deadline, limits.stdout_bytes)
        if ending is Ending.EXITED:
            status = await_exit(pid, deadline)
            ending = Ending.EXITED if status is not None else Ending.TIMED_OUT
    except ChildProcessError:
        ending = Ending.LOST
    finally:
        os.close(stdout_fd)
        if status is None and ending is not Ending.LOST:
            status = kill_group(pid) if stdin_fd is None else _kill_one(pid)
    return Outcome(ending, status, bytes(output), b"", time.monotonic() - started)


def _collect(fd: int, output: bytearray, deadline: float, limit: int) -> Ending:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        milliseconds = milliseconds_until(deadline)
        if not milliseconds:
            return Ending.TIMED_OUT
        if not poll.poll(milliseconds):
            continue
        chunk = os.read(fd, CHUNK)
        if not chunk:
            return Ending.EXITED
        output += chunk
        if len(output) > limit:
            return Ending.STDOUT_LIMIT


def _spawn(
    argv: tuple[str, ...],
    program: str | int,
    environ: Mapping[bytes, bytes],
    stdin_fd: int | None,
    stderr_fd: int,
) -> tuple[int, int]:
    """Start the program; return its process id and our end of its output."""
    # Copied before the pipe is made, which could get the number of one that is closed.
    theirs = [_duplicate(stdin_fd)]
    try:
        theirs.append(_duplicate(stderr_fd))
        stdout_fd, child_fd = make_pipe()
        theirs.insert(1, child_fd)
        actions: list[tuple[int, ...]] = [
            (os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(theirs)
        ]
        last, path = LAST_STANDARD_FD, program
        if isinstance(program, int):
            last, path = _PROGRAM_FD, f"/proc/self/fd/{_PROGRAM_FD}"
            actions.append((os.POSIX_SPAWN_DUP2, program, _PROGRAM_FD))
        try:
            actions += close_beyond(last)
            return start(str(path), argv, environ, actions, own_group=stdin_fd is None), stdout_fd
        except BaseException:
            os.close(stdout_fd)
            raise
    finally:
        for fd in theirs:
            os.close(fd)


def _duplicate(fd: int | None) -> int:
    """A copy of *fd* clear of the standard streams; an empty device for None, or for one that is closed."""
    import fcntl

    if fd is not None:
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
    empty = os.open(os.devnull, os.O_RDWR)
    return empty if empty > LAST_STANDARD_FD else move_up(empty)


def _kill_one(pid: int) -> int | None:
    """End a program that shares our process group, and so our terminal.

    What stopped us at the terminal was told to it as well, so it has a moment to set the terminal right.
    """
    status: int | None = None
    try:
        for signal_number in (0, signal.SIGKILL):
            if status is None:
                os.kill(pid, signal_number)
                status = await_exit(pid, time.monotonic() + DEATH_SECONDS)
    except (ChildProcessError, ProcessLookupError):
        return None
    if status is None:
        left_to_collect.append(pid)
    return status


def _run_elsewhere(  # noqa: PLR0913, PLR0917 - as above
    argv: tuple[str, ...],
    program: str | int,
    environ: Mapping[bytes, bytes],
    limits: Limits,
    stdin_fd: int | None,
    stderr_fd: int,
) -> Outcome:
    """The same where there is no ``posix_spawn``, such as on Windows; only an open file cannot be run."""
    import subprocess

    from keyferry.invoke.portable import _kill_tree

    if isinstance(program, int):
        raise OSError(errno.ENOSYS, "function not implemented")
    started = time.monotonic()
    ending = Ending.EXITED
    with subprocess.Popen(
        argv,
        executable=program,
        stdin=subprocess.DEVNULL if stdin_fd is None else stdin_fd,
        stdout=subprocess.PIPE,
        stderr=stderr_fd,
        env={os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()},
        start_new_session=os.name != "nt" and stdin_fd is None,
    ) as process:
        seconds = limits.timeout_seconds
        try:
            stdout, _ = process.communicate(timeout=None if isinf(seconds) else seconds)
        except subprocess.TimeoutExpired:
            ending, stdout = Ending.TIMED_OUT, b""
            if stdin_fd is None:
                _kill_tree(process)
            process.kill()
    if len(stdout) > limits.stdout_bytes:
        ending = Ending.STDOUT_LIMIT
    return Outcome(ending, process.returncode, stdout, b"", time.monotonic() - started)
