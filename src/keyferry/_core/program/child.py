"""A program that is run: what there is to end, to collect and to close, whenever its run is interrupted."""

import os
from enum import Enum

from keyferry._core.program.fork_exec import CAN_FORK_EXEC, fork_exec
from keyferry._core.program.popen import popen
from keyferry._core.program.pump import Ending, Pump
from keyferry._core.program.reap import CAN_LOOK, await_end, await_exit, kill_group, watch_for_exit

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keyferry._core.program.pump import Limits

__all__ = ["USUAL_WAY", "Child", "Way"]


class Way(Enum):
    """How a program is started and served."""

    FORK_EXEC = "by the call that Popen itself makes, in the versions of Python whose call is known"
    POPEN = "by Popen, and with what POSIX has to wait and to end"
    THREADS = "by Popen, and with a thread for each pipe, as every system can"


# The quickest one that there is here.
USUAL_WAY = Way.FORK_EXEC if CAN_FORK_EXEC else Way.POPEN if hasattr(os, "killpg") else Way.THREADS
# By names of their own where every run comes by: to ask an enum for a member runs Python code up to 3.11.
_FORK_EXEC, _EXITED = Way.FORK_EXEC, Ending.EXITED


class Child:
    """A program, from before its start to its end: its process id, 0 while there is none to end, and our pipes.

    It is made before the program is started, so that whoever is interrupted, whenever that is, knows what there
    is to end. *kill* ends a program that was not collected yet, and gives its status or None. With *kills_always* it
    is called for one that has ended by itself as well: others of its process group may be left.
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
        # Our ends of the pipes for its three standard streams; -1 where there is none, or none any more.
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
        """Start the program and note its process id, to be called under HeldSignals; raises OSError or ValueError."""
        if self._way is _FORK_EXEC:
            self.pid = fork_exec(path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds)
            return
        process = popen(path, argv, environ, streams, own_session=own_session, kept_fds=kept_fds)
        self.pid = process.pid
        process.returncode = 0  # it is collected here, and no business of its own any more

    def pump(self, stdin: bytes, limits: "Limits") -> Pump:
        """The pump for its pipes, to be made when it was started."""
        return Pump(self.fds, stdin, limits)

    def follow(self, pump: Pump, deadline: float, *, moment: float | None = None) -> Ending:
        """Serve its pipes and collect it; at the end of the time, or at a limit, it is left as it is.

        A program that is done before the instant *moment* is not looked at before: one wake-up serves for all it says.
        """
        ending = None
        if moment is not None and watch_for_exit(self.pid, moment):
            ending = pump.finish()
        if ending is None:
            ending = pump.serve(deadline)
        return self.wait(deadline) if ending is _EXITED else ending

    def wait(self, deadline: float) -> Ending:
        """Wait for the end of a program that has closed its outputs, and collect it."""
        try:
            if self._kills_always:
                # Not collected before: until then the number of its group is its own.
                status = self.kill() if await_end(self.pid, deadline) else None
            else:
                status = await_exit(self.pid, deadline)
        except ChildProcessError:
            self.collected(None)
            return Ending.LOST
        if status is None:
            return Ending.TIMED_OUT
        self.collected(status)
        return _EXITED

    def kill(self) -> int | None:
        """End the program, which was not collected yet; its status, or None."""
        return self._kill(self.pid)

    def collected(self, status: int | None) -> None:
        """Note that the program has ended, and that its process id may be another's from now on."""
        self.status = status
        self.pid = 0

    def end(self) -> None:
        """End the program if it was not collected yet, and let go of its pipes; once done, it does nothing more."""
        try:
            if self.pid:
                self.collected(self.kill())
        finally:
            if max(self.fds) >= 0:
                for stream in range(len(self.fds)):
                    self.close(stream)

    def close(self, stream: int) -> None:
        """Let go of our end of the pipe for a standard stream."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)
