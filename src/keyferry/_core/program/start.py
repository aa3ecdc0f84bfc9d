"""Start a program with given streams, without inherited descriptors, and follow it to its end."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType

from keyferry._core.files import is_open
from keyferry._core.gotext import go_strerror
from keyferry._core.program.kill import (
    CAN_LOOK,
    DEATH_SECONDS,
    has_ended,
    kill_group,
    left_to_collect,
    poll_exit,
)
from keyferry._core.program.pump import Ending, Limits, Pump, Tail, ThreadedPump

Environ = Mapping[bytes, bytes] | Mapping[str, str]

# The streams of a program: a pipe to this process, or the null device.
PIPE, EMPTY = subprocess.PIPE, subprocess.DEVNULL
# Windows has no process groups, and its pipes cannot be polled.
IS_WINDOWS = os.name == "nt"
_MAX_STANDARD_FD = 2
_BUSY_TRIES = 5
_MOMENT_MILLISECONDS = 2
# Between looks for an end that nothing announces.
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0005, 0.02
_BUSY_SECONDS = 0.02
# What Linux reads of a script to find its interpreter.
_HEAD_BYTES = 256


class Program:
    """A program from before its start to its end: its process id, while it is not collected, and its pipes.

    It is created before the program is started, so that after an interruption the caller knows what to end. Without
    *own_session*, it stays in the process group of this process, and therefore at its terminal. *kill* terminates a
    program in its own session. With *ends_group*, that is also done after the program ended by itself, because other
    members of its process group may be left. With *root*, that folder is its root (``chroot``) and working directory.
    """

    __slots__ = (
        "_ends_group",
        "_kill",
        "_own_session",
        "_process",
        "_root",
        "_watch_fd",
        "fds",
        "pid",
        "status",
    )

    def __init__(
        self,
        *,
        own_session: bool = True,
        ends_group: bool = False,
        kill: Callable[[int], object] = kill_group,
        root: str = "",
    ) -> None:
        self._root = root
        self._own_session = own_session
        self._ends_group = ends_group and CAN_LOOK
        self._kill = kill
        self._process: subprocess.Popen[bytes] | None = None
        self._watch_fd = -1
        # 0 while the program does not run; another thread may read it.
        self.pid = 0
        # The exit status of a program that was collected, negative for a signal.
        self.status: int | None = None
        # This process's ends of the pipes for the three standard streams; -1 for none and for a closed one.
        self.fds = [-1, -1, -1]

    def start(
        self,
        path: str | None,
        argv: Sequence[str],
        environ: Environ | None,
        *,
        streams: tuple[int, int, int] = (PIPE, PIPE, PIPE),
        kept_fds: tuple[int, ...] = (),
    ) -> None:
        """Start *path*; raise OSError or ValueError if it cannot be started.

        Without *path*, ``argv[0]`` is searched for in PATH. Without *environ*, the program gets this process's
        environment. A stream is PIPE, EMPTY or a descriptor, for which EMPTY is used if it is closed. The program
        inherits *kept_fds* under their numbers and no other descriptor but its three streams. No signal is blocked in
        it, and none is ignored because Python ignores it.
        """
        # A bare name is a file in the working directory, and is not searched for in PATH.
        if path is not None and os.sep not in path and not os.path.dirname(path):
            path = os.path.join(os.curdir, path)
        # Copied in one step: another thread may change the environment of this process.
        environ = None if environ is None else dict(environ)
        for patience in range(_BUSY_TRIES, -1, -1):
            try:
                # The lock is released before the signals are handled: a handler may wait for other threads.
                with _HeldSignals(), _starting, _NothingBlocked():
                    self._start(path, argv, environ, streams, kept_fds)
            except subprocess.SubprocessError:
                raise PermissionError(errno.EPERM, f"cannot make {self._root} its root") from None
            except OSError as error:
                # The file is open for writing: it is tried again for a short time.
                if error.errno != errno.ETXTBSY or not patience:
                    raise
            else:
                return
            self.end()
            time.sleep(_BUSY_SECONDS)

    def _start(
        self,
        path: str | None,
        argv: Sequence[str],
        environ: Environ | None,
        streams: tuple[int, int, int],
        kept_fds: tuple[int, ...],
    ) -> None:
        if IS_WINDOWS:
            path, environ = _adapt(path, argv[0], environ, kept_fds)
        theirs: list[int] = []
        given = list(streams)
        try:
            for number, wanted in enumerate(streams):
                if wanted == PIPE:
                    reader, writer = os.pipe()
                    self.fds[number] = reader if number else writer
                    theirs.append(writer if number else reader)
                    # In a daemon, the standard streams may be closed, and a pipe must not have their numbers.
                    self.fds[number] = move_up(self.fds[number])
                    theirs[-1] = given[number] = move_up(theirs[-1])
                elif wanted >= 0 and not is_open(wanted):
                    given[number] = EMPTY
            if not self._own_session and not IS_WINDOWS:
                # With a descriptor to pass, Popen does not use posix_spawn, which since Python 3.13 changes entries of
                # the environment that are no variables.
                kept_fds += tuple(filter(is_open, range(_MAX_STANDARD_FD + 1)))
            process = subprocess.Popen(
                argv,
                executable=path,
                stdin=given[0],
                stdout=given[1],
                stderr=given[2],
                env=environ,
                start_new_session=self._own_session,
                pass_fds=kept_fds,
                # Between fork and exec: two system calls, no lock of this process.
                preexec_fn=partial(_enter, self._root) if self._root else None,  # noqa: PLW1509 - Popen cannot chroot otherwise
            )
            self.pid = process.pid
            if IS_WINDOWS:
                self._process = process
            else:
                process.returncode = 0  # ``collect`` waits for it, so Popen must not
                self._watch_fd = _open_pidfd(self.pid)
        finally:
            for fd in theirs:
                os.close(fd)

    def pump(self, stdin: bytes, limits: Limits, tail: Tail | None = None) -> Pump:
        """Return the pump for the pipes of the started program."""
        kind = ThreadedPump if IS_WINDOWS else Pump
        return kind(self.fds, stdin, limits, self._watch_fd, tail)

    def follow(self, pump: Pump, deadline: float) -> Ending:
        """Serve the pipes and collect the program; at the deadline or at a limit it is left running."""
        if self._watch_fd >= 0:
            # A program that ends at once wakes this process by its end alone, and not by each of its writes.
            watch = select.poll()
            watch.register(self._watch_fd, select.POLLIN)
            watch.poll(_MOMENT_MILLISECONDS)
        pause = _MIN_PAUSE_SECONDS
        try:
            while pump.is_open or not self.collect():
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    return Ending.TIMED_OUT
                # Nothing wakes us: there is no pidfd, or a debugger hides an end that the pidfd announced.
                if not pump.is_open and not pump.has_wake:
                    seconds = min(seconds, pause)
                    pause = min(2 * pause, _MAX_PAUSE_SECONDS)
                if (ending := pump.step(seconds)) is not None:
                    return ending
        except ChildProcessError:
            self.pid = 0
            return Ending.LOST
        return Ending.EXITED

    def collect(self) -> bool:
        """Collect the program if it has ended, and return whether it has.

        Raises ChildProcessError if other code of this process collected it.
        """
        if self._process is not None:
            status = self._process.poll()
        elif self._ends_group and not has_ended(self.pid):
            return False
        else:
            if self._ends_group:
                # Not collected before, because until then no other process group can have its number.
                self._kill(self.pid)
            status = poll_exit(self.pid)
        if status is None:
            return False
        self.collected(status)
        return True

    def collected(self, status: int | None) -> None:
        """Record that the program was collected; its process id may be reused from now on."""
        self.status, self.pid = status, 0

    def kill(self) -> None:
        """Kill the program, unless it is collected, with its process group; collect it, or let a later run do that."""
        if not self.pid:
            return
        pid = self.pid
        try:
            if self._own_session or IS_WINDOWS:
                self._kill(pid)
            # An interrupt from the terminal goes to the program, too, so it gets some time to restore the terminal.
            elif self._collect_within(DEATH_SECONDS):
                return
            else:
                os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.kill()
            if not self._collect_within(DEATH_SECONDS) and self._process is None:
                left_to_collect.append(pid)
        except (ChildProcessError, ProcessLookupError):
            pass  # other code collected it
        self.pid = 0

    def _collect_within(self, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, _MIN_PAUSE_SECONDS
        while not self.collect():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        return True

    def end(self) -> None:
        """Kill the program if it is not collected yet, and close its pipes; further calls do nothing."""
        try:
            self.kill()
        finally:
            for stream in range(len(self.fds)):
                self.close(stream)
            # Taken out first: an interrupt must not close a descriptor twice, which may be another's by then.
            fd, self._watch_fd = self._watch_fd, -1
            if fd >= 0:
                os.close(fd)

    def close(self, stream: int) -> None:
        """Close this process's end of the pipe for a standard stream."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)


def _enter(root: str) -> None:
    os.chroot(root)
    os.chdir("/")


def move_up(fd: int) -> int:
    """Return *fd* under a number above those of the standard streams, which may be closed in a daemon."""
    if fd > _MAX_STANDARD_FD:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MAX_STANDARD_FD + 1)
    os.close(fd)
    return moved


def _open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable at the end of the process, or -1.

    There is none on other systems, old kernels, in sandboxes that forbid the call, and without a free descriptor.
    """
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return -1
    try:
        return move_up(fd)
    except OSError:
        os.close(fd)
        return -1


def _adapt(
    path: str | None, name: str, environ: Environ | None, kept_fds: Sequence[int]
) -> tuple[str, Mapping[str, str] | None]:
    """Return the path of a program and its environment for Windows; raise OSError if it cannot be started."""
    path = path or _find(name)
    # Windows runs a batch file by a shell, which parses the arguments again. Dots and blanks at the end are ignored.
    is_batch = path.rstrip(". ").lower().endswith((".bat", ".cmd"))
    if is_batch or kept_fds:
        number = errno.ENOEXEC if is_batch else errno.ENOSYS
        raise OSError(number, os.strerror(number), path)
    if environ is None:
        return path, None
    return path, {os.fsdecode(key): os.fsdecode(value) for key, value in environ.items()}


def _find(name: str) -> str:
    """Return the path of a program that is given by its path or by a name in PATH.

    Windows itself would search the working directory first.
    """
    if os.path.dirname(name):
        return name
    for folder in filter(os.path.isabs, os.get_exec_path()):
        for found in (os.path.join(folder, f"{name}.exe"), os.path.join(folder, name)):
            if os.path.isfile(found) and os.access(found, os.X_OK):
                return found
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


# Held by the thread that starts a program. Programs are started one after the other in any case, because the thread
# that starts one holds the interpreter's lock; threads that wait here do not compete for that one at each system call.
# One thread may have it twice: Popen tells audit hooks, which may start programs.
_starting = threading.RLock()


def _renew_lock() -> None:
    """Replace the lock, which a thread of the parent process may hold that does not exist in the child."""
    global _starting  # noqa: PLW0603 - replaced in one step
    _starting = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _NothingBlocked:
    """A block of code in which this thread blocks no signal, because a new program inherits the blocked signals.

    A pending signal stays blocked, so that it is not delivered here. Use it under _HeldSignals: a handler that raises
    at its beginning or end would leave signals unblocked.
    """

    __slots__ = ("_blocked",)

    def __enter__(self) -> None:
        self._blocked: set[int] = set()
        if not IS_WINDOWS:
            self._blocked = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._blocked - signal.sigpending())

    def __exit__(self, *_: object) -> None:
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


class _HeldSignals:
    """A block of code in which no Python signal handler runs; signals that arrive are handled at its end.

    The handler of Ctrl-C raises wherever the main thread is. If that is after a program was started and before its
    process id is stored, the program runs on and nobody can terminate it. Blocking the signal does not help: another
    thread receives it, the exception is raised in the main thread nevertheless, and the program inherits the block. In
    other threads no handler runs, so there is nothing to hold.
    """

    __slots__ = ("_came", "_handlers", "_is_over", "_pid")

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._came: list[tuple[int, FrameType | None]] = []
        self._is_over = False
        self._pid = os.getpid()

    def __enter__(self) -> None:
        try:
            for number in range(1, signal.NSIG):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except ValueError:
            self._handlers.clear()  # not the main thread
        except BaseException:
            self._release()
            raise

    def __exit__(self, *_: object) -> None:
        self._release()

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Called after the end: another handler raised while the handlers were restored, and this one was not restored;
        # or another thread forked meanwhile, and in the child nothing is restored.
        if self._is_over or os.getpid() != self._pid:
            self._handlers[number](number, frame)
        else:
            self._came.append((number, frame))

    def _release(self) -> None:
        try:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
        finally:
            self._is_over = True
            self._deliver()

    def _deliver(self) -> None:
        if self._came:
            number, frame = self._came.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:
                self._deliver()


def describe_start_problem(path: str, error: OSError | ValueError, find: Callable[[str], str] = str) -> str:
    """Return why the existing program *path* failed to start with *error*, with its interpreter if that is missing.

    *find* returns where this process finds a path, or raises OSError.
    """
    if not isinstance(error, FileNotFoundError):
        return f"cannot be started: {go_strerror(error)}"
    interpreter = _interpreter(path, find)
    if not interpreter:
        return "needs a program loader that does not exist on this machine"
    why = "; its lines end with CR LF, expected LF" if interpreter.endswith("\r") else ""
    return f"names the interpreter {interpreter!r} in its first line, which does not exist{why}"


def missing_interpreter(path: str, find: Callable[[str], str] = str) -> str:
    """Return the interpreter that the script *path* names and that does not exist; empty if there is none.

    *find* returns where this process finds a path, or raises OSError.
    """
    interpreter = _interpreter(path, find)
    try:
        return "" if os.path.exists(find(interpreter)) else interpreter
    except OSError:
        return interpreter


def _interpreter(path: str, find: Callable[[str], str]) -> str:
    """Return the interpreter in the first line of a script, with the CR of a line that ends with CR LF."""
    try:
        with open(find(path), "rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return ""
    if not head.startswith(b"#!"):
        return ""
    line = head[2:].partition(b"\n")[0].strip(b" \t")
    return os.fsdecode(line.replace(b"\t", b" ").partition(b" ")[0])
