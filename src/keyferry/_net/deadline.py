"""Time limits: a deadline for a whole operation, and limits for each request."""

from __future__ import annotations

from time import monotonic

from keyferry._core.values import Value

NO_LIMIT = float("inf")


class Deadline:
    """The instant by which an operation must be done; every wait is limited to the time that is left."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline, negative once it has passed."""
        return self._end - monotonic()

    def remaining(self) -> float:
        """Return the seconds until the deadline; raise TimeoutError once it has passed."""
        seconds = self.seconds_left
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def within(self, seconds: float) -> Deadline:
        """Return a deadline in *seconds*, or at this deadline if that is earlier."""
        return Deadline(min(seconds, self.seconds_left))


class WaitLimits(Value):
    """The limits of one request.

    *answer_seconds* limits everything from name resolution to the last byte of the response, *connect_seconds* the
    connection alone. Each wait takes at most *idle_seconds*, and at least *pace_bytes* must arrive in every
    *pace_seconds* of waiting. These two also apply to a body without a time limit.
    """

    connect_seconds: float
    answer_seconds: float
    idle_seconds: float = NO_LIMIT
    pace_seconds: float = NO_LIMIT
    pace_bytes: int = 0


class Timer(Deadline):
    """The limits of the current request on one connection, within the deadline of the whole operation."""

    __slots__ = ("_idle_seconds", "_outer", "_limits", "_received", "_waited")

    def __init__(self, outer: Deadline, limits: WaitLimits) -> None:
        super().__init__(limits.answer_seconds)
        self._outer = outer
        self._limits = limits
        self._idle_seconds = limits.idle_seconds
        self._waited = 0.0
        self._received = 0

    @property
    def seconds_left(self) -> float:
        """The seconds until the limit of the response or of the whole operation."""
        return min(self._end - monotonic(), self._outer.seconds_left)

    def remaining(self) -> float:
        """Return the seconds that the next wait may take."""
        return min(super().remaining(), self._idle_seconds)

    def limit_waits(self, seconds: float) -> None:
        """Let each wait from now on take at most *seconds*, and the exchange as long as the operation may."""
        self._idle_seconds = seconds
        self.begin(is_timed=False)

    def begin(self, *, is_timed: bool = True) -> None:
        """Restart the limits for the next part of the exchange; without *is_timed* its total time is not limited."""
        self._end = monotonic() + (self._limits.answer_seconds if is_timed else NO_LIMIT)
        self._waited, self._received = 0.0, 0

    def note(self, seconds: float, size: int) -> None:
        """Record that a wait of *seconds* returned *size* bytes; raise TimeoutError if the server is too slow."""
        self._waited += seconds
        self._received += size
        if self._waited >= self._limits.pace_seconds:
            if self._received < self._limits.pace_bytes:
                raise TimeoutError
            self._waited, self._received = 0.0, 0
