"""Count plugin runs, policy decisions and replaced certificates, with the names and buckets of client-go's metrics."""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock

from keyferry._core.values import Value

# The values of call_status in rest_client_exec_plugin_call_total.
NO_ERROR = "no_error"
PLUGIN_ERROR = "plugin_execution_error"
NOT_FOUND = "plugin_not_found_error"
INTERNAL_ERROR = "client_internal_error"
# client-go's buckets for the age of a certificate, in seconds: ten minutes to four years.
ROTATION_BUCKETS = (
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604800.0,
    2592000.0,
    7776000.0,
    15552000.0,
    31104000.0,
    124416000.0,
)


class Rotations(Value):
    """Ages of certificates when they were replaced: the count for each bucket, and the sum in seconds."""

    buckets: tuple[int, ...]
    seconds: float


class CallMetrics:
    """Counts of plugin runs, policy decisions and replaced certificates.

    It can be updated from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: dict[tuple[int, str], int] = {}
        self._decisions: dict[str, int] = {}
        self._rotations = [0] * (len(ROTATION_BUCKETS) + 1)
        self._rotated_seconds = 0.0

    def called(self, code: int, call_status: str) -> None:
        """Count a run by its exit code and status."""
        with self._lock:
            key = (code, call_status)
            self._calls[key] = self._calls.get(key, 0) + 1

    def decided(self, outcome: str) -> None:
        """Count a decision of the policy."""
        with self._lock:
            self._decisions[outcome] = self._decisions.get(outcome, 0) + 1

    def rotated(self, age_seconds: float) -> None:
        """Count a client certificate that was replaced at the age of *age_seconds*."""
        with self._lock:
            self._rotations[bisect_left(ROTATION_BUCKETS, age_seconds)] += 1
            self._rotated_seconds += age_seconds

    @property
    def calls(self) -> dict[tuple[int, str], int]:
        """Runs by exit code and call_status."""
        with self._lock:
            return dict(self._calls)

    @property
    def decisions(self) -> dict[str, int]:
        """Decisions of the policy by outcome."""
        with self._lock:
            return dict(self._decisions)

    @property
    def rotations(self) -> Rotations:
        """Ages of replaced certificates."""
        with self._lock:
            return Rotations(buckets=tuple(self._rotations), seconds=self._rotated_seconds)


# The default for the whole process, as in client-go; callers that need separate counts pass their own.
CALLS = CallMetrics()
