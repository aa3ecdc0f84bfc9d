"""Plain counts of plugin runs, under the names of client-go's metrics."""

from _thread import allocate_lock
from typing import Protocol

__all__ = [
    "CALLS",
    "INTERNAL_ERROR",
    "NOT_FOUND",
    "NO_ERROR",
    "PLUGIN_ERROR",
    "CallMetrics",
    "Recorder",
]

# The values of call_status in rest_client_exec_plugin_call_total.
NO_ERROR = "no_error"
PLUGIN_ERROR = "plugin_execution_error"
NOT_FOUND = "plugin_not_found_error"
INTERNAL_ERROR = "client_internal_error"


class Recorder(Protocol):
    """Who is told of each run and of each decision of the policy."""

    def called(self, code: int, call_status: str) -> None:
        """A run came to its end, or could not begin: its exit code, -1 for a signal, 1 without a run."""

    def decided(self, outcome: str) -> None:
        """The policy was asked: ``allowed`` or ``denied``."""


class CallMetrics:
    """How many runs ended how, and what the policy decided; safe to update from many threads."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._calls: dict[tuple[int, str], int] = {}
        self._decisions: dict[str, int] = {}

    def called(self, code: int, call_status: str) -> None:
        """Count a run by its exit code and status."""
        with self._lock:
            key = (code, call_status)
            self._calls[key] = self._calls.get(key, 0) + 1

    def decided(self, outcome: str) -> None:
        """Count a decision of the policy."""
        with self._lock:
            self._decisions[outcome] = self._decisions.get(outcome, 0) + 1

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


# This process's own, as in client-go; who wants them apart passes another.
CALLS = CallMetrics()
