"""Run a program where pipes cannot be polled and there are no process groups, which is on Windows.

Each pipe has a thread that waits on it. The limits are the same as elsewhere. This way works on every system.
"""

from __future__ import annotations

import errno
import os
import time

from keyferry._core.program.child import Child
from keyferry._core.program.popen import popen
from keyferry._core.program.pump import CHUNK, Ending, Pump
from keyferry._core.program.reap import DEATH_SECONDS, LONGEST_WAIT_SECONDS
from keyferry._core.program.signals import HeldSignals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keyferry._core.program.pump import Limits

__all__ = ["PortableChild", "ThreadedPump"]


def _adapt(
    path: str | None, name: str, environ: Mapping[bytes, bytes] | None, kept_fds: Sequence[int]
) -> tuple[str, Mapping[str, str] | None]:
    """Return the path of a program and its environment as text; raise OSError if it cannot be started."""
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


class PortableChild(Child):
    """A program that is identified by its handle alone."""

    __slots__ = ("_process",)

    def start(
        self,
        path: str | None,
        argv: Sequence[str],
        environ: Mapping[bytes, bytes] | None,
        streams: tuple[int, int, int],
        *,
        own_session: bool,
        kept_fds: tuple[int, ...],
        is_hasty: bool = False,  # noqa: ARG002 - this way is never hasty
    ) -> None:
        """Start the program and keep its handle; raise OSError or ValueError if it cannot be started."""
        path, variables = _adapt(path, argv[0], environ, kept_fds)
        with HeldSignals():
            self._process = popen(path, argv, variables, streams, own_session=own_session)
            self.pids.append(self._process.pid)

    def pump(self, stdin: bytes, limits: Limits) -> Pump:
        """Return the pump for the pipes, with a thread for each."""
        return ThreadedPump(self.fds, stdin, limits)

    def read_at_once(self, limits: Limits) -> bytes | None:  # noqa: ARG002 - no limit is needed
        """Return None: the threads read the output."""
        return None

    def wait(self, deadline: float) -> Ending:
        """Wait for the end of a program that has closed its outputs, and collect it."""
        while (status := self._poll_exit(deadline - time.monotonic())) is None:
            if time.monotonic() >= deadline:
                return Ending.TIMED_OUT
        self.collected(status)
        return Ending.EXITED

    def kill(self) -> int | None:
        """Kill the program and its descendants; return its exit status or None."""
        if hasattr(os, "killpg"):
            import signal

            try:
                os.killpg(self.pids[0], signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it does not lead a group, or the group is dead
        else:
            _kill_tree(self.pids[0])
        self._process.kill()
        return self._poll_exit(DEATH_SECONDS)

    def _poll_exit(self, seconds: float) -> int | None:
        from subprocess import TimeoutExpired

        try:
            return self._process.wait(min(max(0.0, seconds), LONGEST_WAIT_SECONDS))
        except TimeoutExpired:
            return None


def _kill_tree(pid: int) -> None:
    """Kill a program and its descendants on Windows."""
    import subprocess

    killer = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    subprocess.run([killer, "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)


class ThreadedPump(Pump):
    """A pump whose pipes are served by threads.

    A thread owns its pipe: if the pipe were closed here, the thread could read from the next file with its number. A
    thread whose pipe another program holds open is left running.
    """

    __slots__ = ("_ends", "_open")

    @property
    def is_open(self) -> bool:
        """Whether an output pipe is still open, or input is still to be written."""
        return self._open > 0

    def step(self, seconds: float) -> Ending | None:
        """Wait at most *seconds* for the end of a pipe; return an ending if a limit is exceeded."""
        from queue import Empty

        try:
            ending = self._ends.get(timeout=min(max(0.0, seconds), LONGEST_WAIT_SECONDS))
        except Empty:
            return None
        self._open -= 1
        return ending

    def _begin(self) -> None:
        from queue import SimpleQueue
        from threading import Thread

        self._ends: SimpleQueue[Ending | None] = SimpleQueue()
        self._open = 0
        fds = self._fds
        for stream, work in enumerate((self._feed_all, self._drain, self._drain)):
            if fds[stream] >= 0:
                fd, fds[stream] = fds[stream], -1
                self._open += 1
                Thread(target=work, args=(stream, fd), daemon=True).start()

    def _feed_all(self, _stream: int, fd: int) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(fd, self._rest[:CHUNK]) :]
        except OSError:
            pass  # the program closed its input early
        finally:
            os.close(fd)
            self._ends.put(None)

    def _drain(self, stream: int, fd: int) -> None:
        ending = None
        try:
            while ending is None and (chunk := os.read(fd, CHUNK)):
                ending = self._keep(stream, chunk)
        finally:
            os.close(fd)
            self._ends.put(ending)
