"""Plain counts of what was decided and pulled; the metrics are made of these."""

from _thread import allocate_lock

__all__ = ["PullCounters"]


class PullCounters:
    """What was decided so far; safe to update from many threads."""

    __slots__ = ("_checks", "_lock", "_requests")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._checks: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], int] = {}

    def count_check(self, result: str) -> None:
        """Count a decision by the kubelet's word for it; an absent image has none and does not count."""
        if result:
            with self._lock:
                self._checks[result] = self._checks.get(result, 0) + 1

    def count_request(
        self, pull_policy: str, *, present_locally: bool | None, pull_required: bool | None
    ) -> None:
        """Count a container's need of an image; None for what could not be found out."""
        key = (pull_policy.lower(), _word(present_locally), _word(pull_required))
        with self._lock:
            self._requests[key] = self._requests.get(key, 0) + 1

    @property
    def checks(self) -> dict[str, int]:
        """Decisions by result."""
        with self._lock:
            return dict(self._checks)

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """Needs of images by pull policy, whether present, whether a pull was required."""
        with self._lock:
            return dict(self._requests)


def _word(value: bool | None) -> str:  # noqa: FBT001 - the value is what it is about
    return "unknown" if value is None else str(value).lower()
