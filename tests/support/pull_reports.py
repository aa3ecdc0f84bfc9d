"""What kubelets report of pulls, word for word: the reasons of failures, the pod's status, and its events.

Times are given as seconds before now.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from .kubernetes_api import Json

# When the last attempt was, when the first one was, and when everything was made that a pull needs. The last attempt is
# after the start of the world's kubelet, so it is recent.
AGO, SINCE, LONG_AGO = 0, 300, 3600
DIGEST = f"sha256:{'d' * 64}"
_NUMBERS = count(0x17C8A0)


def stamp(ago: float) -> str:
    """Return a time in the API's form, which has whole seconds."""
    return datetime.fromtimestamp(time.time() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def aged(document: Json, ago: float = LONG_AGO, changed: float | None = None) -> Json:
    """Return an object that was created *ago*, and written for the last time then or at *changed*."""
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    times = [("kubectl-create", ago), *([] if changed is None else [("kubectl-patch", changed)])]
    written = [
        {"manager": by, "operation": "Update", "apiVersion": "v1", "time": stamp(at)} for by, at in times
    ]
    return {**document, "metadata": {**metadata, "creationTimestamp": stamp(ago), "managedFields": written}}


# The reasons of containerd 1.6, by the image.


def _host(image: str) -> str:
    return image.partition("/")[0]


def _url(image: str, scheme: str = "https") -> str:
    name, _, tag = image.partition("/")[2].rpartition(":")
    return f"{scheme}://{_host(image)}/v2/{name}/manifests/{tag}"


def _unresolved(image: str, why: str) -> str:
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {why}'


def unauthorized(image: str) -> str:
    """The registry wants another credential, or one at all."""
    tag = image.rpartition(":")[2]
    status = f"failed with status code [manifests {tag}]: 401 Unauthorized"
    return _unresolved(image, f"pulling from host {_host(image)} {status}")


def not_found(image: str) -> str:
    """The registry has no such image."""
    return f"rpc error: code = NotFound desc = {_unresolved(image, f'{image}: not found')}"


def unreachable(image: str) -> str:
    """Nothing listens at the registry's address."""
    why = "dial tcp 127.0.0.1:1: connect: connection refused"
    return _unresolved(image, f'failed to do request: Head "{_url(image, "http")}": {why}')


def untrusted(image: str) -> str:
    """The registry's certificate is signed by an authority that the runtime does not know."""
    why = "x509: certificate signed by unknown authority"
    return _unresolved(image, f'failed to do request: Head "{_url(image)}": {why}')


def no_such_host(image: str) -> str:
    """The registry's name has no address."""
    why = f"dial tcp: lookup {_host(image)} on 10.255.255.53:53: no such host"
    return _unresolved(image, f'failed to do request: Head "{_url(image)}": {why}')


QPS_EXCEEDED = "pull QPS exceeded"


@dataclass(frozen=True)
class Reported:
    """An event: how often it was seen, and when for the first and for the last time."""

    reason: str
    message: str
    ago: float = AGO
    count: int = 1
    since: float | None = None
    type: str = "Normal"

    def document(self, about: Json, field_path: str) -> Json:
        """Return the event as the API server has it."""
        metadata = about["metadata"]
        assert isinstance(metadata, dict)
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            **({"fieldPath": field_path} if field_path else {}),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{next(_NUMBERS):x}",
                "namespace": metadata["namespace"],
                "creationTimestamp": stamp(self.since or self.ago),
            },
            "involvedObject": involved,
            "type": self.type,
            "reason": self.reason,
            "message": self.message,
            "count": self.count,
            "firstTimestamp": stamp(self.since or self.ago),
            "lastTimestamp": stamp(self.ago),
            "eventTime": None,
            "source": {"component": "kubelet", "host": "node1"},
            "reportingComponent": "kubelet",
            "reportingInstance": "node1",
        }


@dataclass(frozen=True)
class Report:
    """What the kubelet reports of a container: its state in the pod's status, and events in order.

    Without a container, these are events of the pod.
    """

    state: Json
    events: tuple[Reported, ...] = ()
    container: str = "app"
    is_init: bool = False
    image_id: str = ""

    def status(self, image: str) -> Json:
        """Return the container's entry in the pod's status."""
        is_running = "running" in self.state
        return {
            "name": self.container,
            "image": image,
            "imageID": self.image_id,
            "ready": is_running,
            "started": is_running,
            "restartCount": 0,
            "state": self.state,
            "lastState": {},
        }

    def event_documents(self, about: Json) -> Iterator[Json]:
        """Yield the events about a pod, as the API server has them."""
        kind = "initContainers" if self.is_init else "containers"
        field_path = f"spec.{kind}{{{self.container}}}" if self.container else ""
        for each in self.events:
            yield each.document(about, field_path)


def waiting(reason: str, message: str = "") -> Json:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def failed(
    image: str,
    why: str,
    *,
    ago: float = AGO,
    before: Iterable[Reported] = (),
    is_old: bool = False,
    container: str = "app",
    is_init: bool = False,
) -> Report:
    """A pull that fails again and again; before Kubernetes 1.32 (*is_old*) the status has no reason of it."""
    back_off = f'Back-off pulling image "{image}"'
    state = waiting("ImagePullBackOff", back_off if is_old else f"{back_off}: ErrImagePull: {why}")
    events = (
        *before,
        Reported("Pulling", f'Pulling image "{image}"', ago + 1, 4, SINCE),
        Reported("Failed", f'Failed to pull image "{image}": {why}', ago, 4, SINCE, "Warning"),
        Reported("Failed", "Error: ErrImagePull", ago, 4, SINCE, "Warning"),
        Reported("BackOff", back_off, max(ago - 10, 0), 9, SINCE - 1),
        Reported("Failed", "Error: ImagePullBackOff", max(ago - 10, 0), 9, SINCE - 1, "Warning"),
    )
    return Report(state, events, container, is_init)


def never_pulled(image: str) -> Report:
    """A container that may not pull, and may not use an image of the node either."""
    why = f'Container image "{image}" is not present with pull policy of Never'
    events = (
        Reported("ErrImageNeverPull", why, AGO, 20, SINCE, "Warning"),
        Reported("Failed", "Error: ErrImageNeverPull", AGO, 20, SINCE, "Warning"),
    )
    return Report(waiting("ErrImageNeverPull", why), events)


def unreadable_secret(why: str) -> Report:
    """A pull secret that the kubelet cannot read: nothing is pulled."""
    return Report(waiting(why), (Reported("Failed", f"Error: {why}", AGO, 20, SINCE, "Warning"),))


def lacking_secrets(*names: str) -> Report:
    """Listed secrets that the kubelet cannot get."""
    what = f"Unable to retrieve some image pull secrets ({', '.join(names)})"
    message = f"{what}; attempting to pull the image may not succeed."
    event = Reported("FailedToRetrieveImagePullSecret", message, AGO, 20, SINCE, "Warning")
    return Report({}, (event,), container="")


def _running(image: str, events: tuple[Reported, ...], ago: float) -> Report:
    started = (Reported("Created", "Container created", ago), Reported("Started", "Container started", ago))
    repository = image.rpartition(":")[0]
    return Report(
        {"running": {"startedAt": stamp(ago)}},
        (*events, *started) if events else (),
        image_id=f"{repository}@{DIGEST}",
    )


def pulled(image: str, ago: float = AGO, before: Iterable[Reported] = ()) -> Report:
    """A container that runs after a pull."""
    took = "in 67ms (870ms including waiting). Image size: 1028365 bytes."
    events = (
        *before,
        Reported("Pulling", f'Pulling image "{image}"', ago + 1),
        Reported("Pulled", f'Successfully pulled image "{image}" {took}', ago),
    )
    return _running(image, events, ago)


def used(image: str, ago: float = AGO) -> Report:
    """A container that runs with the node's own image."""
    message = f'Container image "{image}" already present on machine and can be accessed by the pod'
    return _running(image, (Reported("Pulled", message, ago),), ago)


def running(image: str, ago: float = LONG_AGO) -> Report:
    """A container that runs for so long that its events have expired."""
    return _running(image, (), ago)


def creating(container: str = "app") -> Report:
    """A container of a pod that has just come to its node."""
    return Report(waiting("ContainerCreating"), (), container)


def initializing(container: str = "app") -> Report:
    """A container that waits for the init containers."""
    return Report(waiting("PodInitializing"), (), container)
