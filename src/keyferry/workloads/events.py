"""The events of a pod that are about pulls, as the kubelet writes them."""

from collections.abc import Iterable

from keyferry._core.secrets import redact
from keyferry._core.values import Value
from keyferry.workloads.objects import Json

__all__ = ["PullEvent", "pull_events"]

# The reasons of events that only pulls have; Failed is also about other failures of a container.
_PULL_REASONS = frozenset(
    (
        "BackOff",
        "ErrImageNeverPull",
        "Failed",
        "FailedToRetrieveImagePullSecret",
        "InspectFailed",
        "Pulled",
        "Pulling",
    )
)
_MOST_EVENTS = 8
_LONGEST = 400


class PullEvent(Value):
    """An event: when it was last seen, its type and reason, and the kubelet's message, with secrets masked."""

    time: str
    type: str
    reason: str
    message: str
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.time or 'unknown time'} {self.type} {self.reason}{times}: {self.message}"


def pull_events(items: Iterable[Json]) -> tuple[PullEvent, ...]:
    """Return the latest events about pulls, newest last."""
    events = [_event(each) for each in items if each.get("reason") in _PULL_REASONS]
    # Times of RFC 3339 in UTC sort as text; an event of the newer API has eventTime instead of lastTimestamp.
    return tuple(sorted(events, key=lambda each: each.time)[-_MOST_EVENTS:])


def _event(item: Json) -> PullEvent:
    series = item.get("series")
    last = series.get("lastObservedTime") if isinstance(series, dict) else None
    times = (item.get("lastTimestamp"), last, item.get("eventTime"), item.get("firstTimestamp"))
    seen = series.get("count") if isinstance(series, dict) else item.get("count")
    message = " ".join(redact(str(item.get("message", ""))).split())[:_LONGEST]
    return PullEvent(
        next((each for each in times if isinstance(each, str) and each), ""),
        str(item.get("type", "")),
        str(item.get("reason", "")),
        message,
        seen if isinstance(seen, int) else 1,
    )
