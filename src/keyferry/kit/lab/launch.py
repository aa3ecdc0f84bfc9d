"""Run a program and observe its output, the resources it uses and the processes it leaves behind.

``keyferry.invoke`` runs plugins; here a run may be slow and is observed in detail.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping

from keyferry._core.program.kill import DEATH_SECONDS, has_ended, left_to_collect
from keyferry._core.program.pump import Ending, Limits, Pump
from keyferry._core.program.start import EMPTY, PIPE, Program, move_up
from keyferry._core.values import Value, field
from keyferry.invoke.run import ProcessOutcome
from keyferry.kit.lab import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource

__all__ = ["Launch", "Run", "launch"]

# The time that an output pipe may stay open after the program's exit before the pipe counts as held.
_HOLD_SECONDS = 1.0
_LOOK_SECONDS = 0.005
_REST_SECONDS = 0.25
_KIBIBYTE = 1 if sys.platform == "darwin" else 1024
_ENTER = 'cd "$0" && exec "$@"'


class Launch(Value):
    """The settings of one run. Without *stdin*, standard input is empty; *environ* is the whole environment.

    With *is_input_watched*, the run reports whether the input was read. Without *has_reader*, nobody reads its
    output. With *is_sampled*, the command lines of its processes are read repeatedly.
    """

    argv: tuple[str, ...] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    stdin: bytes | None = field(default=b"", repr=False)
    limits: Limits = Limits()
    cwd: str = ""
    has_reader: bool = True
    is_input_watched: bool = False
    is_sampled: bool = False


class Run(Value):
    """The result of a run. *left_behind* is None if the system does not show processes.

    *peak_bytes* is None if it could not be measured. Without *is_peak_exact* it is an upper bound, because the
    system cannot separate the program's memory from this process's.
    """

    outcome: ProcessOutcome
    peak_bytes: int | None = None
    is_peak_exact: bool = True
    left_behind: tuple[processes.Process, ...] | None = None
    held_output: bool = False
    command_lines: frozenset[bytes] = field(default=frozenset(), repr=False)
    was_input_read: bool = False


def launch(what: Launch) -> Run:
    """Run a program once; raise OSError or ValueError if it cannot be started."""
    mark = secrets.token_hex(8)
    started = time.monotonic()
    argv = ("/bin/sh", "-c", _ENTER, what.cwd, *what.argv) if what.cwd else what.argv
    environ = {os.fsencode(name): os.fsencode(value) for name, value in what.environ.items()}
    environ[os.fsencode(processes.MARK)] = mark.encode()
    child = Program(kill=lambda pid: processes.end_all(pid, mark))
    watched_fd = -1
    try:
        if what.is_input_watched:
            watched_fd = _make_input(what.stdin or b"")
        _spawn(child, argv, environ, what, watched_fd)
        watch = _Watch(what, child, mark, started)
        # Before the pump writes: a program that waits for its input cannot have ended, however busy the machine is.
        watch.sample_first()
        return watch.follow(child.pump(what.stdin or b"", what.limits), watched_fd)
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, in case an interrupt stopped the first call
        if watched_fd >= 0:
            os.close(watched_fd)


class _Watch:
    """One run in progress."""

    def __init__(self, what: Launch, child: Program, mark: str, started: float) -> None:
        self._what = what
        self._is_sampled = what.is_sampled and processes.can_look()
        self._child = child
        self._pid = child.pid
        self._mark = mark
        self._started = started
        self._lines: set[bytes] = set()
        self._ended_at: float | None = None

    def sample_first(self) -> None:
        """Note the program's own command line; the system shows none for a moment after its start."""
        deadline = self._started + self._what.limits.timeout_seconds
        while self._is_sampled and not self._lines and time.monotonic() < deadline:
            self._lines.update(processes.command_lines(self._pid))
            try:
                if has_ended(self._pid):
                    return
            except ChildProcessError:
                return  # which is noticed again when it is waited for

    def follow(self, pump: Pump, watched_fd: int) -> Run:
        ending, held = Ending.LOST, False
        left: tuple[processes.Process, ...] | None = None
        try:
            ending, held = self._wait(pump)
            if self._ended_at is not None and processes.can_look():
                left = processes.find_left_behind(self._pid, self._mark)
        except ChildProcessError:
            ending = Ending.LOST
        # The leader is not reaped yet, so its id and the session of that id cannot belong to another process.
        if ending is not Ending.LOST and left != ():
            processes.end_all(self._pid, self._mark)
        status, usage = _collect(self._pid)
        self._child.collected(status)
        seconds = (self._ended_at or time.monotonic()) - self._started
        outcome = ProcessOutcome(
            ending=ending, status=status, stdout=pump.stdout, stderr=pump.stderr, seconds=seconds
        )
        read = watched_fd >= 0 and not _pending(watched_fd)
        return Run(outcome, *_peak(usage), left, held, frozenset(self._lines), read)

    def _wait(self, pump: Pump) -> tuple[Ending, bool]:
        deadline = self._started + self._what.limits.timeout_seconds
        while pump.is_open or self._ended_at is None:
            now = time.monotonic()
            if self._ended_at is None and now >= deadline:
                return Ending.TIMED_OUT, False
            if self._ended_at is not None and now - self._ended_at > _HOLD_SECONDS:
                return Ending.EXITED, True
            ending = pump.step(self._pause(deadline - now, is_woken=pump.has_wake))
            if ending is not None:
                return ending, False
            self._look()
        return Ending.EXITED, False

    def _pause(self, seconds_left: float, *, is_woken: bool) -> float:
        if self._what.is_sampled or self._ended_at is not None or not is_woken:
            return _LOOK_SECONDS
        return min(_REST_SECONDS, max(0.0, seconds_left))

    def _look(self) -> None:
        if self._ended_at is not None:
            return
        if self._is_sampled:
            self._lines.update(processes.command_lines(self._pid))
        if has_ended(self._pid):
            self._ended_at = time.monotonic()


def _spawn(
    child: Program, argv: tuple[str, ...], environ: dict[bytes, bytes], what: Launch, watched_fd: int
) -> None:
    stdin = watched_fd if watched_fd >= 0 else EMPTY if what.stdin is None else PIPE
    child.start(argv[0], argv, environ, streams=(stdin, PIPE, PIPE))
    if not what.has_reader:
        child.close(1)


def _make_input(data: bytes) -> int:
    """Return the read end of a pipe that has *data*, or as much of it as the pipe holds, and no writer."""
    reader, writer = map(move_up, os.pipe())
    try:
        os.set_blocking(writer, False)
        os.write(writer, data)
    finally:
        os.close(writer)
    return reader


def _pending(fd: int) -> bool:
    os.set_blocking(fd, False)
    try:
        return bool(os.read(fd, 1))
    except OSError:
        return False


def _collect(pid: int) -> tuple[int | None, resource.struct_rusage | None]:
    """Return the exit status, and the resources that the program and its children used."""
    deadline = time.monotonic() + DEATH_SECONDS
    while True:
        try:
            found, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return None, None
        if found and not os.WIFSTOPPED(status):
            break
        if time.monotonic() > deadline:
            left_to_collect.append(pid)
            return None, None
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(status), usage


def _peak(usage: resource.struct_rusage | None) -> tuple[int | None, bool]:
    """Return the peak memory of a program, in bytes, and whether the figure is exact or an upper bound."""
    if usage is None:
        return None, False
    import resource  # not on Windows, where there is no kit

    # Until its exec, a spawned program is charged with the memory of this process.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage.ru_maxrss * _KIBIBYTE, usage.ru_maxrss > own
