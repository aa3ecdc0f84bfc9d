"""Counters of providers, from which metrics are made."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from threading import Lock

from keyferry._core.values import Value
from keyferry.errors import (
    KeyferryError,
    Kind,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginStartError,
    PluginTimeoutError,
)

# The kubelet's buckets, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# The kubelet counts an error only if the run failed, not if the response is unusable.
_EXECUTION = (PluginExitError, PluginNotFoundError, PluginOutputError, PluginStartError, PluginTimeoutError)

# Every kind of failure that is counted, also while it has not happened: a series that appears with its first failure
# shows no increase.
CAUSES = (
    *(Kind.NOT_FOUND, Kind.START, Kind.EXIT, Kind.TIMEOUT, Kind.OUTPUT, Kind.PROTOCOL, Kind.ERROR),
    Kind.SERVICE_ACCOUNT,
)


# The runs that are remembered one by one.
MAX_RECENT_RUNS = 20
_MINUTE_NS = 60 * 1_000_000_000
_MINUTES_OF_AN_HOUR = 60


class RecentRun(Value):
    """One of the last runs: when it ended on the provider's clock, how long it took, and whether it failed."""

    at_ns: int
    seconds: float
    has_failed: bool


class Counts(Value):
    """The values of one provider's counters at an instant, and its last run's instant on the provider's clock.

    *renewals* are the runs that no lookup asked for. *recent* are the last runs, the newest last. *streak_ns* is the
    first of the runs that ended as the last one did: since then the plugin fails, or works.
    """

    hits: int
    shared: int
    runs: int
    execution_errors: int
    failures: dict[Kind, int]
    buckets: tuple[int, ...]
    seconds: float
    renewals: int = 0
    recent: tuple[RecentRun, ...] = ()
    last_run_ns: int | None = None
    has_last_failed: bool = False
    streak_ns: int | None = None


class Counters:
    """The counters of one provider; thread-safe."""

    __slots__ = (
        *("_buckets", "_errors", "_failed_minutes", "_failures", "_has_last_failed", "_hits", "_last_run_ns"),
        *("_lock", "_recent", "_renewals", "_runs", "_seconds", "_shared", "_streak_ns"),
    )

    def __init__(self) -> None:
        self._lock = Lock()
        self._hits = 0
        self._shared = 0
        self._runs = 0
        self._errors = 0
        self._seconds = 0.0
        self._failures: dict[Kind, int] = {}
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._last_run_ns: int | None = None
        self._has_last_failed = False
        self._streak_ns: int | None = None
        self._renewals = 0
        self._recent: deque[RecentRun] = deque(maxlen=MAX_RECENT_RUNS)
        # The last minutes in which a run failed, and how many did.
        self._failed_minutes: deque[tuple[int, int]] = deque(maxlen=_MINUTES_OF_AN_HOUR)

    def hit(self) -> None:
        """Count an answer from the cache."""
        with self._lock:
            self._hits += 1

    def shared(self) -> None:
        """Count an answer from another lookup's run."""
        with self._lock:
            self._shared += 1

    def renewed(self) -> None:
        """Count a run that no lookup asked for; it is counted as a run as well."""
        with self._lock:
            self._renewals += 1

    def ran(self, seconds: float | None, problem: KeyferryError | None, at_ns: int) -> None:
        """Count a run that ended at *at_ns*, and its failure, if it failed."""
        has_failed = problem is not None
        with self._lock:
            self._runs += 1
            self._seconds += seconds or 0.0
            self._buckets[bisect_left(BUCKETS, seconds or 0.0)] += 1
            if self._streak_ns is None or has_failed is not self._has_last_failed:
                self._streak_ns = at_ns
            self._last_run_ns, self._has_last_failed = at_ns, has_failed
            self._recent.append(RecentRun(at_ns=at_ns, seconds=seconds or 0.0, has_failed=has_failed))
            if problem is not None:
                self._note_failure(at_ns // _MINUTE_NS)
                self._fail(problem.kind if isinstance(problem, PluginError) else Kind.ERROR)
                self._errors += isinstance(problem, _EXECUTION)

    def failed(self, kind: Kind) -> None:
        """Count a failure before the plugin was run."""
        with self._lock:
            self._fail(kind)

    def failed_in_the_last_hour(self, now_ns: int) -> int:
        """Return how many runs failed in the last sixty minutes, to the minute."""
        oldest = now_ns // _MINUTE_NS - _MINUTES_OF_AN_HOUR
        with self._lock:
            return sum(number for minute, number in self._failed_minutes if minute > oldest)

    def read(self) -> Counts:
        """Return the current values."""
        with self._lock:
            return Counts(
                hits=self._hits,
                shared=self._shared,
                runs=self._runs,
                execution_errors=self._errors,
                failures=dict(self._failures),
                buckets=tuple(self._buckets),
                seconds=self._seconds,
                renewals=self._renewals,
                recent=tuple(self._recent),
                last_run_ns=self._last_run_ns,
                has_last_failed=self._has_last_failed,
                streak_ns=self._streak_ns,
            )

    def _note_failure(self, minute: int) -> None:
        before = 0
        if self._failed_minutes and self._failed_minutes[-1][0] == minute:
            before = self._failed_minutes.pop()[1]
        self._failed_minutes.append((minute, before + 1))

    def _fail(self, kind: Kind) -> None:
        self._failures[kind] = self._failures.get(kind, 0) + 1
