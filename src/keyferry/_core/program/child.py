"""A program that is run, with all that must be terminated, collected and closed if its run is interrupted."""

from __future__ import annotations

import os
import select
from enum import StrEnum

from keyferry._core.program.fork_exec import CAN_FORK_EXEC, fork_exec
from keyferry._core.program.pipes import NO_FD, closer
from keyferry._core.program.popen import popen
from keyferry._core.program.pump import CHUNK, POLLHUP, POLLIN, Ending, Pump
from keyferry._core.program.reap import (
    CAN_LOOK,
    await_end,
    await_exit,
    kill_group,
    watch_for_exit,
)
from keyferry._core.program.report import fork_exec_or_raise
from keyferry._core.program.signals import HeldSignals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keyferry._core.program.pump import Limits

__all__ = ["USUAL_WAY", "Child", "Way"]

# A program that ends within this time causes a single wake-up for all of its output.
_MOMENT_MILLISECONDS = 2
_LAST_WORDS = POLLIN | POLLHUP
_CLOSED = (NO_FD, NO_FD, NO_FD)


class Way(StrEnum):
    """The way in which a program is started and its pipes are served."""

    FORK_EXEC = "the call that Popen makes, in the versions of Python for which its arguments are known"
    POPEN = "Popen, and the POSIX calls to wait for a process and to kill a process group"
    THREADS = "Popen, and a thread for each pipe, which works on every system"


# The fastest way on this system.
USUAL_WAY = Way.FORK_EXEC if CAN_FORK_EXEC else Way.POPEN if hasattr(os, "killpg") else Way.THREADS


class Child:
    """A program from before its start to its end: its process id, while it is not collected, and its pipes.

    It is created before the program is started, so that after an interruption the caller knows what to terminate.
    *kill* terminates a program that was not collected yet, and returns its exit status or None. With *kills_always* it
    is also called for a program that ended by itself, because other members of its process group may be left.
    """

    __slots__ = ("_head", "_kill", "_kills_always", "_way", "fds", "pids", "status")

    def __init__(
        self,
        kill: Callable[[int], int | None] = kill_group,
        *,
        kills_always: bool = False,
        way: Way = USUAL_WAY,
    ) -> None:
        self._way = way
        self._kill = kill
        self._kills_always = kills_always and CAN_LOOK
        # A list, to which the call that starts the program appends by itself.
        self.pids: list[int] = []
        self.status: int | None = None
        self._head = b""
        # This process's ends of the pipes for the three standard streams; -1 for none and for a closed one.
        self.fds = [*_CLOSED]

    @property
    def pid(self) -> int:
        """The process id, 0 while the program does not run; another thread may ask meanwhile."""
        return next(iter(self.pids), 0)

    def start(
        self,
        path: str | None,
        argv: Sequence[str],
        environ: Mapping[bytes, bytes] | None,
        streams: tuple[int, int, int],
        *,
        own_session: bool,
        kept_fds: tuple[int, ...],
        is_hasty: bool = False,
    ) -> None:
        """Start the program; raise OSError or ValueError if it cannot be started; for *is_hasty*, see ``spawn``."""
        if self._way is Way.FORK_EXEC:
            if is_hasty:
                report = self.fds[2], streams[2]
                fork_exec(self.pids, path, argv, environ, streams, report, own_session=own_session)
            else:
                fork_exec_or_raise(
                    self.pids, path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds
                )
            return
        with HeldSignals():
            process = popen(path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds)
            self.pids.append(process.pid)
            process.returncode = 0  # ``wait`` collects it, so Popen must not
            del process  # here: an interrupt while Popen is finalised would be lost

    def pump(self, stdin: bytes, limits: Limits) -> Pump:
        """Return the pump for the pipes of the started program."""
        return Pump(self.fds, stdin, limits, head=self._head)

    def read_at_once(self, limits: Limits) -> bytes | None:
        """Return the output of a program that ends within a moment with a short output and no standard error.

        None if the pipes must be served by a pump, as for any other program. A program that ends in time causes one
        wake-up, however often it writes.
        """
        if not watch_for_exit(self.pids[0], _MOMENT_MILLISECONDS):
            return None
        output, errors = self.fds[1:]
        look = select.poll()
        look.register(output, POLLIN)
        look.register(errors, POLLIN)
        # After a hang-up nobody can write to the pipe, so a read that returns less than requested has read everything.
        if look.poll(0) != [(output, _LAST_WORDS), (errors, POLLHUP)]:
            return None
        chunk = os.read(output, CHUNK)
        if len(chunk) < CHUNK and len(chunk) <= limits.stdout_bytes:
            closing = closer([NO_FD, output, errors])
            self.fds[:] = _CLOSED
            any(closing)
            return chunk
        self._head = chunk
        return None

    def follow(self, pump: Pump, deadline: float) -> Ending:
        """Serve the pipes and collect the program; at the deadline or at a limit it is left running."""
        ending = pump.serve(deadline)
        return self.wait(deadline) if ending is Ending.EXITED else ending

    def wait(self, deadline: float) -> Ending:
        """Wait for the end of a program that has closed its outputs, and collect it."""
        try:
            if self._kills_always:
                # Not collected before, because until then no other process group can have its number.
                status = self.kill() if await_end(self.pids[0], deadline) else None
            else:
                status = await_exit(self.pids[0], deadline)
        except ChildProcessError:
            self.collected(None)
            return Ending.LOST
        if status is None:
            return Ending.TIMED_OUT
        self.collected(status)
        return Ending.EXITED

    def kill(self) -> int | None:
        """Terminate the program, which is not collected yet; return its exit status or None."""
        return self._kill(self.pids[0])

    def collected(self, status: int | None) -> None:
        """Record that the program was collected; its process id may be reused from now on."""
        self.status = status
        self.pids.clear()

    def end(self) -> None:
        """Terminate the program if it is not collected yet, and close its pipes; further calls do nothing."""
        try:
            if self.pids:
                self.collected(self.kill())
        finally:
            if max(self.fds) >= 0:
                closing = closer([NO_FD, *sorted(self.fds)[self.fds.count(NO_FD) :]])
                # Taken out first: an interrupt must not close a descriptor twice, which may be another's by then.
                self.fds[:] = _CLOSED
                any(closing)

    def close(self, stream: int) -> None:
        """Close this process's end of the pipe for a standard stream."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)
