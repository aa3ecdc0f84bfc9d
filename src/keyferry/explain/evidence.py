"""What happened to an image of a pod, as its status, its events and its node show it, before anything is computed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property

from keyferry._core.values import Value, replace
from keyferry.errors import ImageNameError, KeyferryError
from keyferry.images.answer import Answer
from keyferry.images.keyring import SourceKind
from keyferry.images.node.changes import (
    ChangedFile,
    Newer,
    changed_at,
    newer_than_kubelet,
    read_config_hash,
)
from keyferry.images.node.kubelet import Kubelet
from keyferry.images.reference import parse_image
from keyferry.pulls.failure_text import UNREACHED_KINDS, FailureKind, PullFailure, recognise, says_why
from keyferry.workloads.events import EARLIER_REASONS, PullEvent
from keyferry.workloads.inputs import Inputs
from keyferry.workloads.objects import Change
from keyferry.workloads.pods import ContainerRole, ContainerState, PodContainer, StateKind, WorkloadPod
from keyferry.workloads.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.mirrors.endpoints import Mirrors

# The kubelet doubles the pause between attempts up to this.
MAX_BACK_OFF_SECONDS = 300.0
# How long it keeps what it read of a docker config.
_DOCKER_CONFIG_SECONDS = 300.0
# The time limit of a question that nobody asked for.
_METRICS_SECONDS = 5.0
_PULLED, _PULLING, _FAILED, _NEVER = "Pulled", "Pulling", "Failed", "ErrImageNeverPull"
_PHASES_WITH_IMAGES = ("Running", "Succeeded")


class AttemptKind(StrEnum):
    """How the last attempt to get an image ended, as far as it was seen."""

    RUNS = "runs"  # the container has its image
    FAILED = "failed"
    TRYING = "trying"  # an attempt is under way, or waits for its turn
    NOT_TRIED = "not-tried"  # the pod has a status, and nothing was tried
    UNSEEN = "unseen"  # there is neither a status nor an event


class LastAttempt(Value):
    """The last attempt to get an image.

    *at* is when it ended, in seconds since 1970, None if that is not known. *failure* is None also for a failure whose
    reason was not seen. *was_pulled* tells whether the image was
    pulled (True), was on the node (False), or neither was seen (None). *since* is when the container started.
    """

    kind: AttemptKind
    at: float | None = None
    failure: PullFailure | None = None
    was_pulled: bool | None = None
    since: float | None = None


class KubeletStart(Value):
    """When a kubelet started, in seconds since 1970, None if that is not seen; *unread* are the files changed since."""

    at: float | None = None
    unread: tuple[Newer, ...] = ()


NOT_SEEN = KubeletStart()


class Evidence(Value):
    """What was seen of an image, and of the pod that uses it, at the instant *now*, in seconds since 1970.

    *phase* is that of the pod, empty if it has no status, *reason* why it failed. *events* are those about the image,
    and *pod_events* those about the whole pod, newest last. *changes* are the sources of credentials whose last change
    is known, *runtime_changes* the files that tell the container runtime how to reach the registry. *started* is when
    the kubelet started, None if that is not seen, *unread* the files that changed since, which it reads once.
    """

    now: float = 0.0
    phase: str = ""
    reason: str = ""
    is_deleted: bool = False
    states: tuple[ContainerState, ...] = ()
    events: tuple[PullEvent, ...] = ()
    pod_events: tuple[PullEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    runtime_changes: tuple[Change, ...] = ()
    started: float | None = None
    unread: tuple[Newer, ...] = ()

    @property
    def unread_secrets(self) -> tuple[str, ...]:
        """The names of the pull secrets that the kubelet could not read, by its latest event about them."""
        found = next((event for event in reversed(self.pod_events) if event.unread_secrets), None)
        if found is None:
            return ()
        # An older event says nothing about the last attempt.
        since = (self.last_attempt.at or 0.0) - MAX_BACK_OFF_SECONDS
        return found.unread_secrets if found.at is None or found.at >= since else ()

    @property
    def hindrance(self) -> PullEvent | None:
        """The latest event about what keeps the kubelet from pulling anything for the pod."""
        return next((event for event in reversed(self.pod_events) if event.reason in EARLIER_REASONS), None)

    @property
    def is_limited(self) -> bool:
        """Whether the kubelet's own limit of pulls put off an attempt."""
        return any(_failure_of(event).kind is FailureKind.QPS for event in self.events)

    @cached_property
    def last_attempt(self) -> LastAttempt:
        """The last attempt: by the status where there is one, else by the events."""
        waiting = next((state for state in self.states if state.waits_for_image), None)
        # A volume that is an image has no state of its own: the pod runs only with it.
        has_all = all(state.has_image for state in self.states) and (
            bool(self.states) or self.phase in _PHASES_WITH_IMAGES
        )
        success = next((event for event in reversed(self.events) if event.reason == _PULLED), None)
        failed = self._last_failure(since=success)
        is_running = any(state.kind is StateKind.RUNNING for state in self.states)
        if has_all and (is_running or failed is None):
            return _running(self.states, success)
        if failed is not None:
            return failed
        failure = None if waiting is None else failure_of_state(waiting)
        if waiting is not None and (failure is None or failure.kind is not FailureKind.QPS):
            return LastAttempt(kind=AttemptKind.FAILED, failure=failure)
        pulling = next((event for event in reversed(self.events) if event.reason == _PULLING), None)
        if success is not None and (pulling is None or (pulling.at or 0.0) <= (success.at or 0.0)):
            return _running(self.states, success)
        if pulling is not None or self.is_limited:
            return LastAttempt(kind=AttemptKind.TRYING)
        return LastAttempt(kind=AttemptKind.NOT_TRIED if self.phase or self.states else AttemptKind.UNSEEN)

    def _last_failure(self, since: PullEvent | None) -> LastAttempt | None:
        """Return the last attempt that failed after *since*, unless only the kubelet's own limit put it off."""
        start = None if since is None else since.at
        for event in reversed(self.events):
            if start is not None and (event.at or 0.0) < start:
                return None
            if _is_failed_attempt(event):
                failure = _failure_of(event)
                if failure.kind is not FailureKind.QPS:
                    return LastAttempt(kind=AttemptKind.FAILED, at=event.at, failure=failure)
        return None

    def since_the_failure(self) -> tuple[Change, ...]:
        """Return the changes that the kubelet or its runtime may not have known at the last attempt, which failed.

        Those of the runtime's files count if the runtime could not reach the registry, the others if it could.
        """
        attempt = self.last_attempt
        failure = attempt.failure
        if attempt.kind is not AttemptKind.FAILED or attempt.at is None:
            return ()
        is_unreached = failure is not None and failure.kind in UNREACHED_KINDS
        changes = self.runtime_changes if is_unreached else self.changes
        return tuple(each for each in changes if each.at + each.delay_seconds > attempt.at)

    @property
    def retried_by(self) -> float | None:
        """The instant by which the kubelet tries again after a failure."""
        failed_at = self.last_attempt.at
        return None if failed_at is None else failed_at + MAX_BACK_OFF_SECONDS


def see(
    pod: WorkloadPod,
    containers: Iterable[PodContainer],
    events: Iterable[PullEvent],
    *,
    now: float,
    changes: tuple[Change, ...] = (),
    runtime_changes: tuple[Change, ...] = (),
    start: KubeletStart = NOT_SEEN,
) -> Evidence:
    """Return what the status of *pod* and its *events* show of *containers*, which use one image.

    A volume has no state of its own. The containers that mount it wait, and their messages name its image.
    """
    wanted = tuple(containers)
    is_volume = any(each.role is ContainerRole.VOLUME for each in wanted)
    places = {(each.role.field, each.name) for each in wanted}
    images = {name for each in wanted for name in _spellings(each.image)}
    kept = tuple(events)
    return Evidence(
        now=now,
        phase=pod.phase,
        reason=pod.reason,
        is_deleted=pod.is_deleted,
        states=tuple(
            _of_image(each, images)
            for each in pod.states
            if (each.role.field, each.name) in places or (is_volume and each.image in images)
        ),
        events=tuple(
            each for each in kept if _is_about(each, places, images) or (is_volume and each.image in images)
        ),
        pod_events=tuple(each for each in kept if not each.container),
        changes=changes,
        runtime_changes=runtime_changes,
        started=start.at,
        unread=start.unread,
    )


def _of_image(state: ContainerState, images: set[str]) -> ContainerState:
    """Return the state, or that of a container that has not begun if its message is about a former image."""
    if not state.image or state.image in images:
        return state
    return replace(state, reason="", message="")


def _is_about(event: PullEvent, places: set[tuple[str, str]], images: set[str]) -> bool:
    """Return whether an event is about these containers and not about an image that they had before."""
    if event.container and (event.field, event.container) not in places:
        return False
    return event.image in images if event.image else bool(event.container)


def _spellings(image: str) -> Iterator[str]:
    """Yield the image as the pod names it, and as the kubelet names it in its events."""
    yield image
    try:
        yield parse_image(image).with_default_tag().text
    except ImageNameError:
        return


def _failure_of(event: PullEvent) -> PullFailure:
    return recognise(event.message, event.reason)


def failure_of_state(state: ContainerState) -> PullFailure | None:
    """Return why a container waits; None if its message tells only that the kubelet waits, as before 1.32."""
    if not says_why(state.message) and state.reason != _NEVER and " " not in state.reason:
        return None
    return recognise(state.message, state.reason)


def _is_failed_attempt(event: PullEvent) -> bool:
    if event.reason == _NEVER:
        return True
    if event.reason not in (_FAILED, "InspectFailed") or not says_why(event.message):
        return False
    return event.is_pull_failure or _failure_of(event).kind in (
        FailureKind.SECRET,
        FailureKind.NAME,
        FailureKind.NEVER,
    )


def _running(states: tuple[ContainerState, ...], success: PullEvent | None) -> LastAttempt:
    started = (each.started_at for each in states if each.kind is StateKind.RUNNING)
    since = next((each for each in started if each is not None), None)
    if success is None:
        return LastAttempt(kind=AttemptKind.RUNS, since=since)
    return LastAttempt(kind=AttemptKind.RUNS, at=success.at, was_pulled=not success.is_use, since=since)


# From the inputs.


def see_image(
    inputs: Inputs,
    answer: Answer,
    containers: tuple[PodContainer, ...],
    *,
    mirrors: Mirrors | None,
    start: KubeletStart,
    changes_there: tuple[Change, ...] = (),
) -> Evidence:
    """Return what was seen of the image of *answer*, which *containers* of the pod use, if the inputs have a pod.

    *changes_there* are those that the pod's node told from afar.
    """
    now, changes = time.time(), (*_changes(inputs, answer, start), *changes_there)
    if inputs.sources.workload is None:
        return Evidence(now=now, changes=changes, started=start.at, unread=start.unread)
    return see(
        inputs.sources.workload,
        containers,
        inputs.sources.events,
        now=now,
        changes=changes,
        runtime_changes=() if mirrors is None else tuple(_runtime_changes(mirrors)),
        start=start,
    )


def _runtime_changes(mirrors: Mirrors) -> Iterator[Change]:
    """Yield the last changes of the file that tells the runtime how to reach a registry, and of what that names."""
    trusted = (file for endpoint in mirrors.endpoints for file in endpoint.trust.ca_files)
    return _file_changes(mirrors.file, *trusted)


def _file_changes(*paths: str) -> Iterator[Change]:
    for path in dict.fromkeys(filter(None, paths)):
        at = changed_at(path)
        if at is not None:
            yield Change(what=path, at=at)


def _changes(inputs: Inputs, answer: Answer, start: KubeletStart) -> Iterator[Change]:
    """Yield the last changes of what the credentials that are found come from."""
    sources, docker_config = inputs.sources, inputs.docker_config.path
    found = {credential.source for credential in answer.credentials}
    secrets = {f"pull secret {source.name}" for source in found if source.secret is not None}
    yield from (change for change in sources.changes if change.what in secrets)
    account = next((source.service_account for source in found if source.service_account is not None), None)
    if account is not None and sources.account_changed_at is not None:
        what = f"service account {account.namespace}/{account.name}"
        yield Change(what=what, at=sources.account_changed_at)
    if _kubelet(inputs) is None:
        return
    providers = [source.name for source in found if source.kind == SourceKind.PROVIDER]
    if providers and start.at is not None:
        # It has read its config again, and forgotten the answers of plugins.
        yield Change(what="the kubelet", at=start.at, how="restarted")
    plugins = (os.path.join(inputs.found.bin_dir, name) for name in providers)
    yield from _file_changes(*plugins, inputs.found.config if providers and not start.unread else "")
    is_used = any(source.kind == SourceKind.NODE_DOCKER_CONFIG for source in found)
    at = changed_at(docker_config) if is_used and docker_config else None
    if at is not None:
        yield Change(what=f"docker config {docker_config}", at=at, delay_seconds=_DOCKER_CONFIG_SECONDS)


def _kubelet(inputs: Inputs) -> Kubelet | None:
    """Return the kubelet of this node, if it is the pod's; for an image with a given config none is searched."""
    node, found = inputs.node, inputs.found
    if node.elsewhere:
        return None
    if found.kubelet is not None or (found.config and inputs.sources.workload is None):
        return found.kubelet
    return node.kubelet


def find_start(inputs: Inputs) -> KubeletStart:
    """Return when the kubelet of this node started, if it is the pod's, and the files that changed since.

    Where a time says so of the provider config, the kubelet is asked for the hash of what it has read, if it can be.
    """
    kubelet, found = _kubelet(inputs), inputs.found
    if kubelet is None:
        return NOT_SEEN
    settings = inputs.node.settings_of(kubelet)
    path = found.config if found.kubelet is not None else ""
    newer = newer_than_kubelet(settings, path)
    if inputs.request.target and any(each.kind is ChangedFile.PROVIDER_CONFIG for each in newer):
        loaded = _loaded_hash(inputs.request, inputs.sources.node_name or kubelet.node_name)
        newer = newer_than_kubelet(settings, path, loaded)
    return KubeletStart(at=kubelet.started, unread=newer)


def _loaded_hash(request: Request, node_name: str) -> str:
    """Return the hash of the provider config that the kubelet's metrics have; empty if they cannot be read."""
    from keyferry._net.forms import encode_percent
    from keyferry.clusters.request import request as send

    path = f"/api/v1/nodes/{encode_percent(node_name)}/proxy/metrics"
    try:
        with send(request.open_session(), path, timeout_seconds=_METRICS_SECONDS) as reply:
            return read_config_hash(reply.read().decode("utf-8", "replace")) if reply.is_success else ""
    except KeyferryError:
        return ""
