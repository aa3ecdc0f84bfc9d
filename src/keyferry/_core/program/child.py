"""A program that is run, with all that must be terminated, collected and closed if its run is interrupted."""

import os

from keyferry._core.program.fork_exec import CAN_FORK_EXEC, fork_exec
from keyferry._core.program.popen import popen
from keyferry._core.program.pump import Ending, Pump
from keyferry._core.program.reap import CAN_LOOK, await_end, await_exit, kill_group, watch_for_exit
from keyferry._core.word_enum import WordEnum

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keyferry._core.program.pump import Limits

__all__ = ["USUAL_WAY", "Child", "Way"]


class Way(WordEnum):
    """The way in which a program is started and its pipes are served."""

    FORK_EXEC = "the call that Popen makes, in the versions of Python for which its arguments are known"
    POPEN = "Popen, and the POSIX calls to wait for a process and to kill a process group"
    THREADS = "Popen, and a thread for each pipe, which works on every system"


# The fastest way on this system.
USUAL_WAY = Way.FORK_EXEC if CAN_FORK_EXEC else Way.POPEN if hasattr(os, "killpg") else Way.THREADS


class Child:
    """A program from before its start to its end: its process id, 0 while it does not run, and its pipes.

    It is created before the program is started, so that after an interruption the caller knows what to terminate.
    *kill* terminates a program that was not collected yet, and returns its exit status or None. With *kills_always* it
    is also called for a program that ended by itself, because other members of its process group may be left.
    """

    __slots__ = ("_kill", "_kills_always", "_way", "fds", "pid", "status")

    def __init__(
        self,
        kill: "Callable[[int], int | None]" = kill_group,
        *,
        kills_always: bool = False,
        way: Way = USUAL_WAY,
    ) -> None:
        self._way = way
        self._kill = kill
        self._kills_always = kills_always and CAN_LOOK
        self.pid = 0
        self.status: int | None = None
        # This process's ends of the pipes for the three standard streams; -1 for none and for a closed one.
        self.fds = [-1, -1, -1]

    def start(
        self,
        path: str | None,
        argv: "Sequence[str]",
        environ: "Mapping[bytes, bytes] | None",
        streams: tuple[int, int, int],
        *,
        own_session: bool,
        kept_fds: tuple[int, ...],
    ) -> None:
        """Start the program and set ``pid``; call it under HeldSignals. Raises OSError or ValueError."""
        if self._way is Way.FORK_EXEC:
            self.pid = fork_exec(path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds)
            return
        process = popen(path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds)
        self.pid = process.pid
        process.returncode = 0  # ``wait`` collects it, so Popen must not

    def pump(self, stdin: bytes, limits: "Limits") -> Pump:
        """Return the pump for the pipes of the started program."""
        return Pump(self.fds, stdin, limits)

    def follow(self, pump: Pump, deadline: float, *, moment: float | None = None) -> Ending:
        """Serve the pipes and collect the program; at the deadline or at a limit it is left running.

        A program that ends before the instant *moment* causes one wake-up, however often it writes.
        """
        ending = None
        if moment is not None and watch_for_exit(self.pid, moment):
            ending = pump.finish()
        if ending is None:
            ending = pump.serve(deadline)
        return self.wait(deadline) if ending is Ending.EXITED else ending

    def wait(self, deadline: float) -> Ending:
        """Wait for the end of a program that has closed its outputs, and collect it."""
        try:
            if self._kills_always:
                # Not collected before, because until then no other process group can have its number.
                status = self.kill() if await_end(self.pid, deadline) else None
            else:
                status = await_exit(self.pid, deadline)
        except ChildProcessError:
            self.collected(None)
            return Ending.LOST
        if status is None:
            return Ending.TIMED_OUT
        self.collected(status)
        return Ending.EXITED

    def kill(self) -> int | None:
        """Terminate the program, which is not collected yet; return its exit status or None."""
        return self._kill(self.pid)

    def collected(self, status: int | None) -> None:
        """Record that the program was collected; its process id may be reused from now on."""
        self.status = status
        self.pid = 0

    def end(self) -> None:
        """Terminate the program if it is not collected yet, and close its pipes; further calls do nothing."""
        try:
            if self.pid:
                self.collected(self.kill())
        finally:
            if max(self.fds) >= 0:
                for stream in range(len(self.fds)):
                    self.close(stream)

    def close(self, stream: int) -> None:
        """Close this process's end of the pipe for a standard stream."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)
