"""Counters of decisions and pulls, from which the metrics are made."""

from __future__ import annotations

from threading import Lock

__all__ = ["PullCounters"]


class PullCounters:
    """Counters of decisions and of requests for images; safe to update from many threads."""

    __slots__ = ("_checks", "_lock", "_requests")

    def __init__(self) -> None:
        self._lock = Lock()
        self._checks: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], int] = {}

    def count_check(self, result: str) -> None:
        """Count a decision by its label in the kubelet's metric; an empty label is not counted."""
        if result:
            with self._lock:
                self._checks[result] = self._checks.get(result, 0) + 1

    def count_request(
        self, pull_policy: str, *, present_locally: bool | None, pull_required: bool | None
    ) -> None:
        """Count a container's request for an image; None means that the value is not known."""
        key = (pull_policy.lower(), _word(present_locally), _word(pull_required))
        with self._lock:
            self._requests[key] = self._requests.get(key, 0) + 1

    @property
    def checks(self) -> dict[str, int]:
        """The number of decisions by result."""
        with self._lock:
            return dict(self._checks)

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """The number of requests by pull policy, by presence, and by whether a pull was required."""
        with self._lock:
            return dict(self._requests)


def _word(value: bool | None) -> str:  # noqa: FBT001 - the function converts this value
    return "unknown" if value is None else str(value).lower()
