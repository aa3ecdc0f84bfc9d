"""Events about pulls, in the order of their time, in both forms that the API server has."""

from keyferry.workloads.events import pull_events
from keyferry.workloads.objects import Json


def test_both_forms_of_an_event_are_read() -> None:
    """An event of the newer API has a series and an eventTime."""
    old: Json = {
        "reason": "Failed",
        "type": "Warning",
        "message": "a\nb",
        "lastTimestamp": "2026-01-01T00:02:00Z",
        "count": 2,
    }
    new: Json = {
        "reason": "Pulling",
        "type": "Normal",
        "message": "c",
        "lastTimestamp": None,
        "eventTime": "2026-01-01T00:00:00Z",
        "series": {"count": 5, "lastObservedTime": "2026-01-01T00:01:00Z"},
    }
    first, second = pull_events([old, {"reason": "Scheduled"}, new])
    assert str(first) == "2026-01-01T00:01:00Z Normal Pulling (5 times): c"
    assert str(second) == "2026-01-01T00:02:00Z Warning Failed (2 times): a b"


def test_what_is_missing_is_empty_and_secrets_are_masked() -> None:
    (event,) = pull_events([{"reason": "Failed", "message": "password=hunter2-hunter2"}])
    assert (event.time, event.type, event.count) == ("", "", 1)
    assert "hunter2" not in str(event)
    assert str(event).startswith("unknown time")


def test_only_the_latest_are_kept() -> None:
    events: list[Json] = [
        {"reason": "BackOff", "lastTimestamp": f"2026-01-01T00:00:{at:02}Z"} for at in range(20)
    ]
    assert [each.time[-3:-1] for each in pull_events(events)] == [f"{at:02}" for at in range(12, 20)]
