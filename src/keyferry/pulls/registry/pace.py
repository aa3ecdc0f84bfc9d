"""How fast a registry may be asked: the pauses that its responses ask for, and a budget of requests."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic, time

from keyferry._net.dates import parse_date, parse_retry_after
from keyferry._net.messages import Head
from keyferry.errors import Kind, RegistryError

__all__ = ["MAX_PAUSED_SECONDS", "Budget", "NotAskedError", "Pace", "asked_pause"]

# A registry that asks for longer pauses in all is not asked any more.
MAX_PAUSED_SECONDS = 900.0
# The pause after a 429 that names none; the next ones are longer.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 60.0
_THROTTLED, _UNAVAILABLE = 429, 503
_MAX_DIGITS = 12
# A reset of at least this is a Unix time, as GitHub and GitLab send it; a smaller one counts seconds.
_FIRST_UNIX_TIME = 1_000_000_000


class NotAskedError(RegistryError):
    """A question that no registry was asked: the budget is used up, or the registry asks for too long a pause."""

    def __init__(self, registry: str, message: str) -> None:
        super().__init__(registry, 0, message, Kind.ERROR)
        self.args = (registry, message)


class Budget:
    """The number of requests that may still be sent to all registries and their token servers; thread-safe."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._lock = Lock()
        self.spent = 0

    @property
    def left(self) -> float:
        """How many requests may still be sent; infinity without a limit."""
        return float("inf") if self._most is None else self._most - self.spent

    @property
    def why_not(self) -> str:
        """Why no request may be sent any more; empty while one may."""
        return "" if self.left > 0 else f"the budget of requests ({self._most:,}) is used up"

    def spend(self) -> str:
        """Count a request, or return why it may not be sent."""
        with self._lock:
            why_not = self.why_not
            self.spent += not why_not
            return why_not


class Pace:
    """When one registry may be asked again, as the meter of its transport; thread-safe.

    *resumes_at* is an instant of *clock*.
    """

    def __init__(self, registry: str, budget: Budget, clock: Callable[[], float] = monotonic) -> None:
        self._registry = registry
        self._budget = budget
        self._clock = clock
        self._lock = Lock()
        self._usual = _FIRST_PAUSE_SECONDS
        self._paused = 0.0
        self._why_not = ""
        self._was_asked = False
        self.resumes_at = 0.0

    @property
    def pause_left(self) -> float:
        """The seconds until it may be asked again, 0 if it may be asked now."""
        return max(0.0, self.resumes_at - self._clock())

    @property
    def refusal(self) -> NotAskedError | None:
        """Why it is not asked any more; None while it may be asked."""
        why_not = self._why_not or self._budget.why_not
        return self._refused(why_not) if why_not else None

    def _refused(self, why_not: str) -> NotAskedError:
        more = " any more" if self._was_asked else ""
        return NotAskedError(self._registry, f"was not asked{more}: {why_not}")

    def stop(self, why_not: str) -> None:
        """Let no further request be sent."""
        self._why_not = self._why_not or why_not

    def begin(self) -> None:
        """Count a request; raise NotAskedError if it may not be sent."""
        why_not = self._why_not or self._budget.spend()
        if why_not:
            raise self._refused(why_not)
        self._was_asked = True

    def note(self, head: Head) -> None:
        """Take the pause that a response asks for."""
        seconds = asked_pause(head)
        if seconds is None:
            return
        with self._lock:
            now = self._clock()
            # The answers to requests that were sent at the same time ask for one pause.
            if head.status == _THROTTLED and now >= self.resumes_at:
                seconds = max(seconds, self._usual)
                self._usual = min(2 * self._usual, _LONGEST_PAUSE_SECONDS)
            self._paused += max(0.0, now + seconds - max(now, self.resumes_at))
            self.resumes_at = max(self.resumes_at, now + seconds)
            if self._paused > MAX_PAUSED_SECONDS:
                self.stop(f"it asks for pauses of {self._paused:,.0f} s in all")


def asked_pause(head: Head) -> float | None:
    """Return the seconds for which a response asks to wait; None if it asks for no pause."""
    date = parse_date(head.value("date"))
    now = time() if date is None else date
    retry_after = parse_retry_after(head.value("retry-after"), now)
    if head.status == _THROTTLED or (head.status == _UNAVAILABLE and retry_after):
        return max(retry_after, _reset_seconds(head, now))
    return _reset_seconds(head, now) or None


def _reset_seconds(head: Head, now: float) -> float:
    """Return the seconds until requests are allowed again, if a response says that none is left; else 0.

    Docker Hub names no time of a reset, and does not count requests with HEAD.
    """
    for prefix in ("ratelimit", "x-ratelimit"):
        reset = _number(head.value(f"{prefix}-reset"))
        if _number(head.value(f"{prefix}-remaining")) == 0 and reset is not None:
            return max(0.0, reset - now if reset >= _FIRST_UNIX_TIME else reset)
    return 0.0


def _number(text: str) -> int | None:
    """Return the number at the start of a field, which its window may follow after a semicolon; None without any."""
    digits = text.partition(";")[0].strip()
    return int(digits[:_MAX_DIGITS]) if digits.isascii() and digits.isdigit() else None
