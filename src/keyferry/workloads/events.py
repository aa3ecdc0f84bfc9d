"""The events of a pod that are about pulls, as the kubelet writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from keyferry._core.secrets import redact
from keyferry._core.values import Value
from keyferry.workloads.objects import Json, KubernetesObject, ObjectKind, seconds_of

__all__ = ["PullEvent", "events_about", "pull_events"]

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
_UNREAD_SECRETS = "FailedToRetrieveImagePullSecret"
# What keeps a kubelet from pulling anything for a pod.
EARLIER_REASONS = frozenset(
    ("FailedAttachVolume", "FailedCreatePodSandBox", "FailedMount", "FailedScheduling", "NetworkNotReady")
)
# How a field path names a container: spec.containers{app}.
_CONTAINER = re.compile(r"spec\.(\w+)\{([^{}]*)\}")
_SECRET_NAMES = re.compile(r"\(([^()]*)\)")
_IMAGE = re.compile(r'image "([^"]*)"')
# Failures of a container that are about its image; the kubelet's others have the same reason.
_PULL_WORDS = ("Failed to pull image ", "Failed to inspect image ", "Failed to apply default image tag ")
_USED = "already present on machine"
# Kubernetes accepts messages of 1 KiB; a longer one of another origin keeps its beginning and its end.
_MAX_CHARACTERS = 8192


class PullEvent(Value):
    """An event: when it was last seen, its type and reason, and the kubelet's message, with secrets masked.

    *field* and *container* name the container that it is about, as in ``containers`` and ``app``; both are empty for
    an event about the pod. The message names the *image*, if there is one there. *is_pull_failure* tells that it is
    about a pull that failed, *is_use* that the image was on the node already. *unread_secrets* are the pull secrets
    that the kubelet could not read.
    """

    time: str
    type: str
    reason: str
    message: str
    count: int = 1
    field: str = ""
    container: str = ""
    image: str = ""
    is_pull_failure: bool = False
    is_use: bool = False
    unread_secrets: tuple[str, ...] = ()

    @property
    def at(self) -> float | None:
        """When it was last seen, in seconds since 1970; None if it does not tell."""
        return seconds_of(self.time)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.time or 'unknown time'} {self.type} {self.reason}{times}: {self.message}"


def pull_events(items: Iterable[Json]) -> tuple[PullEvent, ...]:
    """Return the events about pulls, or about what keeps the kubelet from them, newest last."""
    reasons = _PULL_REASONS | EARLIER_REASONS
    events = [_event(each) for each in items if each.get("reason") in reasons]
    return tuple(sorted(events, key=lambda each: each.at or 0.0))


def events_about(pod: KubernetesObject, objects: Iterable[KubernetesObject]) -> tuple[PullEvent, ...]:
    """Return the events about pulls of a pod that are among *objects*, newest last."""
    return pull_events(
        each.value for each in objects if each.kind is ObjectKind.EVENT and _is_about(each.value, pod)
    )


def _is_about(event: Json, pod: KubernetesObject) -> bool:
    involved = event.get("involvedObject") or event.get("regarding")
    if not isinstance(involved, dict) or involved.get("name") != pod.name:
        return False
    # A pod of the same name that is gone had another UID; the events of its namespace have no other pod of that name.
    same_uid = not involved.get("uid") or not pod.uid or involved["uid"] == pod.uid
    namespace = pod.text("metadata", "namespace")
    return same_uid and (not namespace or involved.get("namespace") in (None, "", namespace))


def shown_text(text: object) -> str:
    """Return a text of the kubelet in one line, with secrets masked; of a very long one, its beginning and its end."""
    line = " ".join(redact(str(text or "")).split())
    if len(line) <= _MAX_CHARACTERS:
        return line
    half = _MAX_CHARACTERS // 2
    return f"{line[:half]} … {line[-half:]}"


def _event(item: Json) -> PullEvent:
    series = item.get("series")
    last = series.get("lastObservedTime") if isinstance(series, dict) else None
    # An event of the newer API has eventTime instead of lastTimestamp.
    times = (item.get("lastTimestamp"), last, item.get("eventTime"), item.get("firstTimestamp"))
    seen = series.get("count") if isinstance(series, dict) else item.get("count")
    involved = item.get("involvedObject") or item.get("regarding")
    path = involved.get("fieldPath") if isinstance(involved, dict) else None
    container = _CONTAINER.fullmatch(path) if isinstance(path, str) else None
    message = item.get("message") or item.get("note")
    text, reason = shown_text(message), str(item.get("reason", ""))
    return PullEvent(
        time=next((each for each in times if isinstance(each, str) and each), ""),
        type=str(item.get("type", "")),
        reason=reason,
        message=text,
        count=seen if isinstance(seen, int) else 1,
        field=container.group(1) if container else "",
        container=container.group(2) if container else "",
        image=named_image(message),
        is_pull_failure=text.startswith(_PULL_WORDS),
        is_use=_USED in text,
        unread_secrets=_unread_secrets(text) if reason == _UNREAD_SECRETS else (),
    )


def named_image(message: object) -> str:
    """Return the image that a text of the kubelet names; before it is masked, since a name may look like a secret."""
    found = _IMAGE.search(message[:_MAX_CHARACTERS]) if isinstance(message, str) else None
    return found.group(1) if found else ""


def _unread_secrets(text: str) -> tuple[str, ...]:
    found = _SECRET_NAMES.search(text)
    names = (name.strip() for name in found.group(1).split(",")) if found else ()
    return tuple(filter(None, names))
