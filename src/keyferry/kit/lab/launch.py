"""Run a program and observe its output, the resources it uses and the processes it leaves behind.

``keyferry.invoke`` runs plugins; here a run may be slow and is observed in detail. Its processes are found in /proc, by
their session and by a mark in their environment.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping

from keyferry._core.program.kill import DEATH_SECONDS, has_ended, left_to_collect
from keyferry._core.program.pump import Ending, Limits, Pump
from keyferry._core.program.start import EMPTY, PIPE, Program, move_up
from keyferry._core.values import Value, field
from keyferry.invoke.run import ProcessOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource

__all__ = ["Launch", "Process", "Run", "can_look", "launch"]

# The time that an output pipe may stay open after the program's exit before the pipe counts as held.
_HOLD_SECONDS = 1.0
_LOOK_SECONDS = 0.005
_REST_SECONDS = 0.25
_KIBIBYTE = 1 if sys.platform == "darwin" else 1024
_ENTER = 'cd "$0" && exec "$@"'
# A variable with a different value in every run, which a child that leaves the session still has.
_MARK = "KEYFERRY_KIT_RUN"
_PROC = "/proc"
# The time in which a child may exit by itself, such as the last process of a pipeline.
_PARTING_SECONDS = 0.5
_PASSES = 20
# The index of the start time in the fields after a process's name.
_BEGAN = 19


class Process(Value):
    """A process by its id and its name."""

    pid: int
    name: str


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
    left_behind: tuple[Process, ...] | None = None
    held_output: bool = False
    command_lines: frozenset[bytes] = field(default=frozenset(), repr=False)
    was_input_read: bool = False


def launch(what: Launch) -> Run:
    """Run a program once; raise OSError or ValueError if it cannot be started."""
    mark = secrets.token_hex(8)
    started = time.monotonic()
    argv = ("/bin/sh", "-c", _ENTER, what.cwd, *what.argv) if what.cwd else what.argv
    environ = {os.fsencode(name): os.fsencode(value) for name, value in what.environ.items()}
    environ[os.fsencode(_MARK)] = mark.encode()
    child = Program(kill=lambda pid: _end_all(pid, mark))
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
        self._is_sampled = what.is_sampled and can_look()
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
            self._lines.update(_command_lines(self._pid))
            try:
                if has_ended(self._pid):
                    return
            except ChildProcessError:
                return  # which is noticed again when it is waited for

    def follow(self, pump: Pump, watched_fd: int) -> Run:
        ending, held = Ending.LOST, False
        left: tuple[Process, ...] | None = None
        try:
            ending, held = self._wait(pump)
            if self._ended_at is not None and can_look():
                left = _find_left_behind(self._pid, self._mark)
        except ChildProcessError:
            ending = Ending.LOST
        # The leader is not reaped yet, so its id and the session of that id cannot belong to another process.
        if ending is not Ending.LOST and left != ():
            _end_all(self._pid, self._mark)
        status, usage = _collect(self._pid)
        self._child.collected(status)
        seconds = (self._ended_at or time.monotonic()) - self._started
        outcome = ProcessOutcome(
            ending=ending, status=status, stdout=pump.stdout, stderr=pump.stderr, seconds=seconds
        )
        read = watched_fd >= 0 and not _pending(watched_fd)
        peak_bytes, is_peak_exact = _peak(usage)
        return Run(
            outcome=outcome,
            peak_bytes=peak_bytes,
            is_peak_exact=is_peak_exact,
            left_behind=left,
            held_output=held,
            command_lines=frozenset(self._lines),
            was_input_read=read,
        )

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
            self._lines.update(_command_lines(self._pid))
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


def can_look() -> bool:
    """Return whether this system shows the processes that a program has started."""
    return sys.platform == "linux" and os.path.exists(f"{_PROC}/self/stat")


def _find_left_behind(leader: int, mark: str) -> tuple[Process, ...]:
    """Return the processes of a run that are still alive half a second after their leader ended."""
    deadline = time.monotonic() + _PARTING_SECONDS
    while found := tuple(_members(leader, mark)):
        if time.monotonic() >= deadline:
            return found
        time.sleep(0.01)
    return ()


def _end_all(leader: int, mark: str) -> None:
    """Kill every process of a run, in several passes, because one may start another meanwhile."""
    for _ in range(_PASSES):
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        members = list(_members(leader, mark)) if can_look() else []
        for member in members:
            _end(member.pid)
        if not members:
            return
        time.sleep(0.01)


def _command_lines(leader: int) -> Iterator[bytes]:
    """Yield the command lines of a program and its descendants, which every user of the machine can read."""
    waiting = [leader]
    while waiting:
        pid = waiting.pop()
        line = _read(pid, "cmdline")
        if line:
            yield line
        waiting += [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _members(leader: int, mark: str) -> Iterator[Process]:
    """Yield the living processes of the leader's session or with its mark, without the leader."""
    wanted = f"{_MARK}={mark}".encode()
    began = _began(_stat(leader)[1])
    for name in os.listdir(_PROC):
        if not name.isdigit() or int(name) in (leader, os.getpid()):
            continue
        pid = int(name)
        shown, fields = _stat(pid)
        # A process that is older than the run does not belong to it.
        if not fields or fields[0] in (b"Z", b"X") or _began(fields) < began:
            continue
        if int(fields[3]) == leader or wanted in _read(pid, "environ").split(b"\0"):
            yield Process(pid=pid, name=shown)


def _stat(pid: int) -> tuple[str, list[bytes]]:
    """Return the name of a process and the fields after it: state, parent, process group, session and so on."""
    head, _, rest = _read(pid, "stat").rpartition(b")")
    return head.partition(b"(")[2].decode("utf-8", "replace"), rest.split()


def _began(fields: list[bytes]) -> int:
    return int(fields[_BEGAN]) if len(fields) > _BEGAN else 0


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _read(pid: int, what: str) -> bytes:
    try:
        with open(f"{_PROC}/{pid}/{what}", "rb") as stream:
            return stream.read(1 << 16)
    except OSError:
        return b""  # the process has ended or belongs to another user
