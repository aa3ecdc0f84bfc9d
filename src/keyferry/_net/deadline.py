"""How long to wait: one instant for everything together, and the limits of each request."""

from time import monotonic

from keyferry._core.values import Value

__all__ = ["NO_LIMIT", "Deadline", "Timer", "WaitLimits"]

NO_LIMIT = float("inf")


class Deadline:
    """An instant by which all of something must be done; every wait asks it how long is left."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, negative once it has passed."""
        return self._end - monotonic()

    def remaining(self) -> float:
        """Seconds until the deadline; raises TimeoutError once there are none."""
        seconds = self.seconds_left
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def within(self, seconds: float) -> "Deadline":
        """This deadline, or one in *seconds*, whichever comes first."""
        return Deadline(min(seconds, self.seconds_left))


class WaitLimits(Value):
    """The limits of one request.

    *answer_seconds* bounds everything from name look-up to the last byte of the answer, *connect_seconds* the
    connection alone. Each wait is at most *idle_seconds* long, and of every *pace_seconds* spent on waiting
    something must come: *pace_bytes* at least. These hold too for a body that has no end in time.
    """

    connect_seconds: float
    answer_seconds: float
    idle_seconds: float = NO_LIMIT
    pace_seconds: float = NO_LIMIT
    pace_bytes: int = 0


class Timer(Deadline):
    """The limits of the request under way on one connection, within the deadline of everything together."""

    __slots__ = ("_outer", "_patience", "_received", "_waited")

    def __init__(self, outer: Deadline, patience: WaitLimits) -> None:
        super().__init__(patience.answer_seconds)
        self._outer = outer
        self._patience = patience
        self._waited = 0.0
        self._received = 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the answer, or everything, must be there."""
        return min(self._end - monotonic(), self._outer.seconds_left)

    def remaining(self) -> float:
        """Seconds that the next wait may take."""
        return min(super().remaining(), self._patience.idle_seconds)

    def begin(self, *, is_timed: bool = True) -> None:
        """Begin anew with what comes next on the connection; without *is_timed* it may take any time."""
        self._end = monotonic() + (self._patience.answer_seconds if is_timed else NO_LIMIT)
        self._waited, self._received = 0.0, 0

    def note(self, seconds: float, size: int) -> None:
        """Note that a wait brought *size* bytes; raises TimeoutError for a server that trickles."""
        self._waited += seconds
        self._received += size
        if self._waited >= self._patience.pace_seconds:
            if self._received < self._patience.pace_bytes:
                raise TimeoutError
            self._waited, self._received = 0.0, 0
