"""One instant for everything a plugin run waits for."""

from time import monotonic

__all__ = ["Deadline"]


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
