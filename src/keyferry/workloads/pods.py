"""The parts of a pod that determine how its images are pulled, from a Pod or from the template of a workload."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.values import Value, replace
from keyferry.errors import ImageNameError
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import parse_image
from keyferry.workloads.events import named_image, shown_text
from keyferry.workloads.objects import Json, KubernetesObject, ObjectKind, seconds_of

__all__ = [
    "ContainerRole",
    "ContainerState",
    "PodContainer",
    "StateKind",
    "WorkloadPod",
    "has_waiting_container",
    "read_pod",
    "token_audiences",
]

DEFAULT_NAMESPACE, DEFAULT_ACCOUNT = "default", "default"
_TEMPLATE = ("spec", "template")
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_NAMING_FIELDS = ("name", "namespace", "uid", "ownerReferences")
_ALWAYS, _NEVER = "Always", "Never"
_CRON_TEMPLATE = ("spec", "jobTemplate", "spec", "template")


class ContainerRole(StrEnum):
    """The lists in a pod whose entries have an image."""

    INIT = "init container"
    MAIN = "container"
    EPHEMERAL = "ephemeral container"
    VOLUME = "image volume"

    @property
    def field(self) -> str:
        """The list's name in the spec, which also events use."""
        return _FIELDS[self]


_FIELDS = {
    ContainerRole.INIT: "initContainers",
    ContainerRole.MAIN: "containers",
    ContainerRole.EPHEMERAL: "ephemeralContainers",
    ContainerRole.VOLUME: "volumes",
}


_STATUSES = {
    ContainerRole.INIT: "initContainerStatuses",
    ContainerRole.MAIN: "containerStatuses",
    ContainerRole.EPHEMERAL: "ephemeralContainerStatuses",
}


class StateKind(StrEnum):
    """The kinds of states of a container."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


# The reasons for which a container waits because of its image.
_IMAGE_REASONS = frozenset(
    (
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    )
)
# The reasons for which it waits after it got its image.
_LATER_REASONS = frozenset(
    (
        "ContainerCannotRun",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "StartError",
    )
)


# The kubelet's own limit of pulls: the next attempt decides.
_PUT_OFF = "pull QPS exceeded"
# The reason of a container that ended, or never began, while nobody saw it.
_LOST = "ContainerStatusUnknown"


class ContainerState(Value):
    """The state of a container in the pod's status, with secrets in its message masked.

    *started_at* is when it last started, in seconds since 1970; *image_id* the image that it runs or ran. *image* is
    the one that the message names, if any. *is_put_off* tells that the kubelet itself put off the pull.
    """

    role: ContainerRole
    name: str
    kind: StateKind
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    image_id: str = ""
    image: str = ""
    is_put_off: bool = False

    @property
    def waits_for_image(self) -> bool:
        """Whether it waits because its image could not be had.

        For a pull secret that cannot be read, the kubelet gives the error in the place of a reason, which has no blank.
        """
        is_image = self.reason in _IMAGE_REASONS or " " in self.reason
        return self.kind is StateKind.WAITING and is_image

    @property
    def has_image(self) -> bool:
        """Whether it got its image: it runs or ran, or waits for something later, such as a restart.

        The image of a container that waits is that of the one before it.
        """
        if self.kind is StateKind.TERMINATED:
            return bool(self.image_id) or self.reason != _LOST
        return self.kind is StateKind.RUNNING or self.reason in _LATER_REASONS


class PodContainer(Value):
    """A container of a pod, or a volume that is an image; *pull_policy* is empty if it is not set."""

    role: ContainerRole
    name: str
    image: str
    pull_policy: str = ""

    @property
    def is_never_pulled(self) -> bool:
        """Whether the image must be on the node already."""
        return self.pull_policy == _NEVER

    @property
    def is_always_pulled(self) -> bool:
        """Whether the image is pulled even if it is on the node; without a policy, its tag decides."""
        if self.pull_policy:
            return self.pull_policy == _ALWAYS
        _, _, digest = self.image.partition("@")
        _, _, tag = self.image.rpartition("/")[2].partition(":")
        return not digest and tag in ("", "latest")

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


class WorkloadPod(Value):
    """A pod, or the pod that a workload's template describes.

    *workload* is the object that it was read from. *node_name* is empty for a pod that is on no node.
    *listed_secrets* are the names of the pull secrets in the pod's own list. *without_image* are containers and
    image volumes that name no image. *phase* is empty and there are no *states* if the pod has no status, *reason* is
    why the pod failed.
    *token_audiences* are those of the tokens in its volumes.
    """

    workload: KubernetesObject
    pod: Pod
    node_name: str = ""
    listed_secrets: tuple[str, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    without_image: tuple[PodContainer, ...] = ()
    phase: str = ""
    reason: str = ""
    states: tuple[ContainerState, ...] = ()
    token_audiences: tuple[str, ...] = ()

    @property
    def is_deleted(self) -> bool:
        """Whether the pod is being deleted."""
        return bool(self.workload.text("metadata", "deletionTimestamp"))

    @property
    def has_ended(self) -> bool:
        """Whether nothing is started for the pod any more."""
        return self.is_deleted or self.phase in ("Failed", "Succeeded")

    @property
    def waits_for_image(self) -> bool:
        """Whether a container waits because its image, or that of a volume, could not be had."""
        return any(each.waits_for_image for each in self.states)

    @property
    def unready_since(self) -> float | None:
        """When it was last ready, else when it was created, in seconds since 1970; None if neither is known."""
        for each in self.workload.items("status", "conditions"):
            if each.get("type") == "Ready" and each.get("status") == "False":
                return seconds_of(each.get("lastTransitionTime"))
        return seconds_of(self.workload.field("metadata", "creationTimestamp"))

    @property
    def is_controlled(self) -> bool:
        """Whether another object owns the pod, and replaces it when it is deleted."""
        return any(each.get("controller") for each in self.workload.items("metadata", "ownerReferences"))

    @property
    def is_static(self) -> bool:
        """Whether a kubelet runs it from a file of its node, and the API server has only a copy of it."""
        return self.workload.field("metadata", "annotations", _MIRROR_ANNOTATION) is not None

    @property
    def is_template(self) -> bool:
        """Whether it is the template of a workload, so that there is no pod yet."""
        return self.workload.kind is not ObjectKind.POD

    @property
    def is_created(self) -> bool:
        """Whether the API server has created it: its account's pull secrets are in its own list."""
        return not self.is_template and bool(self.pod.uid)

    @property
    def by_image(self) -> dict[str, tuple[PodContainer, ...]]:
        """The containers of each image, in the order of the pod."""
        images = dict.fromkeys(each.image for each in self.containers)
        return {image: tuple(each for each in self.containers if each.image == image) for image in images}

    def using(self, image: str) -> tuple[PodContainer, ...]:
        """Return the containers of an image, in any spelling of its name."""
        wanted = _full_name(image)
        return tuple(each for each in self.containers if _full_name(each.image) == wanted)

    def without_content(self) -> WorkloadPod:
        """Return the pod without its containers and their states, for those who keep many pods in memory."""
        return replace(self.without_document(), containers=(), without_image=(), states=())

    def without_document(self) -> WorkloadPod:
        """Return the pod without what was not read of its object, whose size is a multiple of the rest."""
        metadata = self.workload.field("metadata")
        found = metadata if isinstance(metadata, dict) else {}
        kept = {name: found[name] for name in _NAMING_FIELDS if name in found}
        if self.is_static:
            kept["annotations"] = {_MIRROR_ANNOTATION: ""}
        return replace(self, workload=replace(self.workload, value={"metadata": kept}))

    def __str__(self) -> str:
        place = f"{self.pod.namespace}/{self.workload.name}"
        if self.is_template:
            return f"the pod template of {self.workload.kind.lower()} {place}"
        return f"pod {place}"


def read_pod(workload: KubernetesObject, namespace: str = "") -> WorkloadPod:
    """Return the pod of a Pod or of a workload's template; *namespace* is that of objects without one.

    Raise EnvironmentProblem for a field of the wrong type.
    """
    place: tuple[str, ...] = ()
    if workload.kind is not ObjectKind.POD:
        place = _CRON_TEMPLATE if workload.kind is ObjectKind.CRON_JOB else _TEMPLATE
    is_pod = not place
    spec = (*place, "spec")
    pod = Pod(
        namespace=workload.text("metadata", "namespace") or namespace or DEFAULT_NAMESPACE,
        name=workload.name if is_pod else "",
        uid=workload.uid if is_pod else "",
        # The API server copies the deprecated field serviceAccount.
        service_account_name=workload.text(*spec, "serviceAccountName")
        or workload.text(*spec, "serviceAccount")
        or DEFAULT_ACCOUNT,
    )
    found = tuple(_containers(workload, spec))
    return WorkloadPod(
        workload=workload,
        pod=pod,
        node_name=workload.text(*spec, "nodeName"),
        listed_secrets=workload.names(*spec, "imagePullSecrets"),
        containers=tuple(each for each in found if each.image),
        without_image=tuple(each for each in found if not each.image),
        phase=workload.text("status", "phase") if is_pod else "",
        reason=workload.text("status", "reason") if is_pod else "",
        states=tuple(_states(workload)) if is_pod else (),
        token_audiences=token_audiences(workload.field(*spec)),
    )


def has_waiting_container(pod: KubernetesObject) -> bool:
    """Return whether a container of a pod waits for anything: most pods of a cluster need no closer look."""
    status = pod.value.get("status")
    lists = (status.get(field) for field in _STATUSES.values()) if isinstance(status, dict) else ()
    entries = (each for found in lists if isinstance(found, list) for each in found)
    states = (each.get("state") for each in entries if isinstance(each, dict))
    return any(isinstance(each, dict) and StateKind.WAITING in each for each in states)


def _states(pod: KubernetesObject) -> Iterator[ContainerState]:
    for role, field in _STATUSES.items():
        for each in pod.items("status", field):
            state = each.get("state")
            for kind in StateKind:
                found = state.get(kind) if isinstance(state, dict) else None
                if isinstance(found, dict):
                    yield _state(role, kind, each, found)


def _state(role: ContainerRole, kind: StateKind, status: Json, found: Json) -> ContainerState:
    return ContainerState(
        role=role,
        name=str(status.get("name") or ""),
        kind=kind,
        reason=str(found.get("reason") or ""),
        message=shown_text(found.get("message")),
        started_at=seconds_of(found.get("startedAt")),
        image_id=str(status.get("imageID") or ""),
        image=named_image(found.get("message")),
        is_put_off=_PUT_OFF in str(found.get("message")),
    )


def token_audiences(spec: object) -> tuple[str, ...]:
    """Return the audiences of the tokens in a pod's projected volumes, which its kubelet may always request."""
    sources = (
        source
        for volume in _objects(spec, "volumes")
        for source in _objects(volume.get("projected"), "sources")
    )
    tokens = (source.get("serviceAccountToken") for source in sources)
    return tuple(str(token.get("audience", "")) for token in tokens if isinstance(token, dict))


def _objects(parent: object, field: str) -> Iterator[dict[str, object]]:
    """Yield the objects of a list, which is ignored if it is none."""
    found = parent.get(field) if isinstance(parent, dict) else None
    yield from (each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))


def _containers(workload: KubernetesObject, spec: tuple[str, ...]) -> Iterator[PodContainer]:
    """Yield what has an image, or should have one; raise EnvironmentProblem for a field of the wrong type."""
    for role in ContainerRole:
        for at, each in enumerate(workload.items(*spec, role.field)):
            if role is not ContainerRole.VOLUME or each.get("image") is not None:
                yield _container(workload, role, (*spec, role.field, at))


def _container(workload: KubernetesObject, role: ContainerRole, path: tuple[str | int, ...]) -> PodContainer:
    name = workload.text(*path, "name")
    if role is ContainerRole.VOLUME:
        image, policy = (
            workload.text(*path, "image", "reference"),
            workload.text(*path, "image", "pullPolicy"),
        )
    else:
        image, policy = workload.text(*path, "image"), workload.text(*path, "imagePullPolicy")
    return PodContainer(role=role, name=name, image=image, pull_policy=policy)


def _full_name(image: str) -> str:
    """Return the name with its registry and its tag; a name that cannot be parsed as it is."""
    try:
        return parse_image(image).in_full().text
    except ImageNameError:
        return image
