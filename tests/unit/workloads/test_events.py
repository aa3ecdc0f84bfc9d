"""Events about pulls, in the order of their time, in both forms that the API server has."""

from __future__ import annotations

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


def test_a_long_message_keeps_its_end() -> None:
    """There stands why a pull failed."""
    (event,) = pull_events(
        [{"reason": "Failed", "message": f"Failed to pull image {'x' * 100_000}: 401 Unauthorized"}]
    )
    assert event.message.endswith(": 401 Unauthorized")
    assert event.is_pull_failure
    assert len(event.message) < 10_000


def test_an_event_names_its_container_its_image_and_secrets_that_are_not_read() -> None:
    involved = {"name": "web", "fieldPath": "spec.initContainers{first}"}
    used: Json = {
        "reason": "Pulled",
        "message": 'Container image "r.io/a:v1" already present on machine and can be accessed by the pod',
        "involvedObject": involved,
    }
    unread: Json = {
        "reason": "FailedToRetrieveImagePullSecret",
        "message": "Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.",
    }
    first, second = pull_events([used, unread])
    assert (first.field, first.container, first.image) == ("initContainers", "first", "r.io/a:v1")
    assert first.is_use
    assert second.unread_secrets == ("a", "b")
    assert (second.field, second.container, second.image) == ("", "", "")
