"""Run one program to its end: bounded in time and output, nothing left behind.

The program gets a session, and so a process group, of its own; past the
deadline the whole group is killed. Its three standard streams are pipes, served
together, so that neither a program that never reads its input nor one that
floods its standard error can block the other streams.

A start is ``posix_spawn``: no copy of this process's memory, no code between
fork and exec, safe beside threads. It raises ``OSError`` or ``ValueError``.
"""

import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from typing import Any

_CHUNK = 65536
_LAST_STANDARD_FD = 2
# How long to wait for a killed process to be gone before leaving it to a later run to collect.
_DEATH_SECONDS = 0.3
_BUSY_TRIES = 5
_BUSY_SECONDS = 0.02
# poll() takes its milliseconds as a C int; who waits longer asks again.
_LONGEST_POLL_SECONDS = 3600.0
# Python ignores these two for itself, and exec hands "ignored" down; a plugin expects the defaults.
_DEFAULTED_SIGNALS = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))

# A session of its own has no terminal that a plugin could prompt on and wait for; elsewhere a group must do.
_OWN_GROUP: dict[str, Any] = {"setsid": True} if sys.platform == "linux" else {"setpgroup": 0}

_left_to_collect: list[int] = []


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use."""

    timeout_seconds: float = 60.0
    stdout_bytes: int = 16 * 1024 * 1024
    stderr_bytes: int = 64 * 1024
    # Standard error beyond stderr_bytes is read and dropped, up to here.
    stderr_drained_bytes: int = 64 * 1024 * 1024


class Ending(StrEnum):
    """How a run came to its end."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    STDOUT_LIMIT = "wrote too much to standard output"
    STDERR_LIMIT = "wrote too much to standard error"
    # This process ignores SIGCHLD, or other code in it waits for any child.
    LOST = "was collected by other code of this process"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a run: its status (negative for a signal), its output, how it ended."""

    ending: Ending
    status: int | None
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    seconds: float


def run(
    argv: tuple[str, ...],
    *,
    stdin: bytes = b"",
    environ: Mapping[bytes, bytes] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Outcome:
    """Run ``argv[0]``, a path, with *stdin*, and wait for the end of it and of its output.

    As in the kubelet, the run lasts until every holder of its output pipes has
    closed them and *stdin* was read or refused; unlike there, the deadline ends
    it whoever holds them.
    """
    environ = os.environb if environ is None else environ
    if not hasattr(os, "posix_spawn"):
        from keyferry.invoke.portable import run_portable

        return run_portable(argv, stdin, environ, limits)
    started = time.monotonic()
    _collect_stragglers()
    pid, stdin_fd, stdout_fd, stderr_fd = _spawn(argv, environ)
    exchange = _Exchange(stdin_fd, stdout_fd, stderr_fd, stdin, limits)
    status: int | None = None
    ending = Ending.TIMED_OUT
    deadline = started + limits.timeout_seconds
    try:
        ending = exchange.serve(deadline)
        if ending is Ending.EXITED:
            status = _await_exit(pid, deadline)
            ending = Ending.EXITED if status is not None else Ending.TIMED_OUT
    except ChildProcessError:
        ending = Ending.LOST
    finally:
        try:
            # Not yet collected, so the process id, and the group of that number, are still its own.
            if status is None and ending is not Ending.LOST:
                status = _kill_group(pid)
        finally:
            exchange.close()
    stdout, stderr = exchange.collected()
    return Outcome(ending, status, stdout, stderr, time.monotonic() - started)


class _Exchange:
    """The three pipes of one run."""

    __slots__ = (
        "_err",
        "_errors",
        "_in",
        "_limits",
        "_out",
        "_output",
        "_poll",
        "_rest",
        "_room",
        "_stderr_seen",
    )

    def __init__(self, stdin_fd: int, stdout_fd: int, stderr_fd: int, stdin: bytes, limits: Limits) -> None:
        self._in = stdin_fd
        self._out = stdout_fd
        self._err = stderr_fd
        self._rest = memoryview(stdin)
        self._limits = limits
        self._room = limits.stdout_bytes
        self._stderr_seen = 0
        # One buffer, not a list of pieces: output in tiny pieces would cost many times its size.
        self._output = bytearray()
        self._errors: list[bytes] = []
        self._poll = select.poll()

    def serve(self, deadline: float) -> Ending:
        """Move bytes until all three pipes are closed, a limit is reached or time is up."""
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        os.set_blocking(self._in, False)
        self._feed()
        if self._in >= 0:
            self._poll.register(self._in, select.POLLOUT)
        while self._out >= 0 or self._err >= 0 or self._in >= 0:
            milliseconds = _milliseconds_until(deadline)
            if not milliseconds:
                return Ending.TIMED_OUT
            for fd, _ in self._poll.poll(milliseconds):
                if (ending := self._move(fd)) is not None:
                    return ending
        return Ending.EXITED

    def close(self) -> None:
        for fd in (self._in, self._out, self._err):
            if fd >= 0:
                os.close(fd)
        self._in = self._out = self._err = -1

    def collected(self) -> tuple[bytes, bytes]:
        return bytes(self._output), self._tail_of_errors()

    def _move(self, fd: int) -> Ending | None:
        if fd == self._in:
            self._feed()
            return None
        chunk = os.read(fd, _CHUNK)
        if fd == self._out:
            return self._keep_output(chunk)
        return self._keep_error(chunk)

    def _feed(self) -> None:
        """Write what the pipe takes; a program that closed its input early is no error."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._in, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._in = self._shut(self._in)

    def _keep_output(self, chunk: bytes) -> Ending | None:
        if not chunk:
            self._out = self._shut(self._out)
            return None
        self._room -= len(chunk)
        if self._room < 0:
            return Ending.STDOUT_LIMIT
        self._output += chunk
        return None

    def _keep_error(self, chunk: bytes) -> Ending | None:
        if not chunk:
            self._err = self._shut(self._err)
            return None
        self._stderr_seen += len(chunk)
        self._errors.append(chunk)
        # The end of a log says most, so the tail is kept.
        if len(self._errors) > 1 + 2 * self._limits.stderr_bytes // _CHUNK:
            self._errors = [self._tail_of_errors()]
        return Ending.STDERR_LIMIT if self._stderr_seen > self._limits.stderr_drained_bytes else None

    def _tail_of_errors(self) -> bytes:
        text = b"".join(self._errors)
        return text[max(0, len(text) - self._limits.stderr_bytes) :]

    def _shut(self, fd: int) -> int:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # standard input that took everything at once was never registered
        os.close(fd)
        return -1


def _spawn(argv: tuple[str, ...], environ: Mapping[bytes, bytes]) -> tuple[int, int, int, int]:
    """Start the program; return its process id and our ends of its three pipes."""
    fds: list[int] = []
    try:
        for _ in range(3):
            fds.extend(_pipe())
        child_in, our_in, our_out, child_out, our_err, child_err = fds
        actions = [
            (os.POSIX_SPAWN_DUP2, child_in, 0),
            (os.POSIX_SPAWN_DUP2, child_out, 1),
            (os.POSIX_SPAWN_DUP2, child_err, 2),
            *_close_the_rest(),
        ]
        pid = _posix_spawn(argv, environ, actions)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    for fd in (child_in, child_out, child_err):
        os.close(fd)
    return pid, our_in, our_out, our_err


def _posix_spawn(
    argv: tuple[str, ...], environ: Mapping[bytes, bytes], actions: list[tuple[int, ...]]
) -> int:
    """Start in a new session; try again for a moment while the file is being written."""
    for patience in range(_BUSY_TRIES, -1, -1):
        try:
            return os.posix_spawn(
                argv[0],
                argv,
                environ,
                file_actions=actions,
                **_OWN_GROUP,
                setsigmask=(),
                setsigdef=_DEFAULTED_SIGNALS,
            )
        except OSError as error:
            if error.errno != errno.ETXTBSY or not patience:
                raise
            time.sleep(_BUSY_SECONDS)
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are clear of the standard streams, which may be closed in a daemon."""
    ends = os.pipe()
    if min(ends) > _LAST_STANDARD_FD:
        return ends
    return _move_up(ends[0]), _move_up(ends[1])


def _move_up(fd: int) -> int:
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD_FD + 1)
    os.close(fd)
    return moved


def _close_the_rest() -> Iterable[tuple[int, ...]]:
    """Actions that keep this process's inheritable descriptors from the program.

    Python's own descriptors close on exec, but a supervisor's sockets, or what
    another library made inheritable, would pass.
    """
    if hasattr(os, "POSIX_SPAWN_CLOSEFROM"):  # Python 3.14 with a libc that has it
        return ((os.POSIX_SPAWN_CLOSEFROM, _LAST_STANDARD_FD + 1),)
    return [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable_fds()]


def _inheritable_fds() -> Iterable[int]:
    for name in os.listdir(_FD_DIRECTORY):
        fd = int(name)
        if fd > _LAST_STANDARD_FD and _is_inheritable(fd):
            yield fd


_FD_DIRECTORY = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # closed by another thread since it was listed


def _await_exit(pid: int, deadline: float) -> int | None:
    """The exit status once the program ends, or None when the deadline comes first."""
    status = _poll_exit(pid)
    if status is not None:
        return status
    if hasattr(os, "pidfd_open"):
        _watch_for_exit(pid, deadline)
    # Also after watching: a program under a debugger has ended well before it can be collected.
    return _await_exit_by_polling(pid, deadline)


def _watch_for_exit(pid: int, deadline: float) -> None:
    """Sleep until the program ends or the deadline comes, if this system lets us watch it."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # an old kernel, a sandbox that refuses the call, no descriptor left, or gone already
    try:
        watch = select.poll()
        watch.register(pidfd, select.POLLIN)
        watch.poll(_milliseconds_until(deadline))
    finally:
        os.close(pidfd)


def _milliseconds_until(deadline: float) -> int:
    return ceil(min(max(0.0, deadline - time.monotonic()), _LONGEST_POLL_SECONDS) * 1000)


def _await_exit_by_polling(pid: int, deadline: float) -> int | None:
    pause = 0.0005
    while (status := _poll_exit(pid)) is None and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return status


def _poll_exit(pid: int) -> int | None:
    """Collect the program if it has ended; ChildProcessError if someone else collected it."""
    collected, status = os.waitpid(pid, os.WNOHANG)
    # A program can make its parent its tracer, which is then told of its stops as well.
    if not collected or os.WIFSTOPPED(status):
        return None
    return os.waitstatus_to_exitcode(status)


def _kill_group(pid: int) -> int | None:
    """Kill the program and all its group, and collect it."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS says this of a group whose members are all dead
        pass
    try:
        status = _await_exit(pid, time.monotonic() + _DEATH_SECONDS)
    except ChildProcessError:
        return None
    if status is None:
        _left_to_collect.append(pid)
    return status


def _collect_stragglers() -> None:
    """Collect what did not die at once when it was killed, such as a process in a system call."""
    for _ in range(len(_left_to_collect)):
        try:
            # Taken out first: no two threads may collect one process id, which may be another's by then.
            pid = _left_to_collect.pop(0)
        except IndexError:
            return
        try:
            gone = _poll_exit(pid) is not None
        except ChildProcessError:
            gone = True
        if not gone:
            _left_to_collect.append(pid)
