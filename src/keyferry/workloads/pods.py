"""The parts of a pod that determine how its images are pulled, from a Pod or from the template of a workload."""

from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.images.provider.accounts import Pod
from keyferry.workloads.objects import KubernetesObject, ObjectKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ContainerRole", "PodContainer", "WorkloadPod", "read_pod"]

DEFAULT_NAMESPACE, DEFAULT_ACCOUNT = "default", "default"
_TEMPLATE = ("spec", "template")
_CRON_TEMPLATE = ("spec", "jobTemplate", "spec", "template")


class ContainerRole(WordEnum):
    """The lists of containers in a pod."""

    INIT = "init container"
    MAIN = "container"
    EPHEMERAL = "ephemeral container"


_FIELDS = {
    ContainerRole.INIT: "initContainers",
    ContainerRole.MAIN: "containers",
    ContainerRole.EPHEMERAL: "ephemeralContainers",
}


class PodContainer(Value):
    """A container of a pod."""

    role: ContainerRole
    name: str
    image: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


class WorkloadPod(Value):
    """A pod, or the pod that a workload's template describes.

    *workload* is the object that it was read from. *node_name* is empty for a pod that is on no node.
    *listed_secrets* are the names of the pull secrets in the pod's own list.
    """

    workload: KubernetesObject
    pod: Pod
    node_name: str = ""
    listed_secrets: tuple[str, ...] = ()
    containers: tuple[PodContainer, ...] = ()

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
        workload.text("metadata", "namespace") or namespace or DEFAULT_NAMESPACE,
        workload.name if is_pod else "",
        workload.uid if is_pod else "",
        # The API server copies the deprecated field serviceAccount.
        workload.text(*spec, "serviceAccountName")
        or workload.text(*spec, "serviceAccount")
        or DEFAULT_ACCOUNT,
    )
    listed = tuple(str(each.get("name", "")) for each in workload.items(*spec, "imagePullSecrets"))
    return WorkloadPod(
        workload,
        pod,
        workload.text(*spec, "nodeName"),
        listed,
        tuple(_containers(workload, spec)),
    )


def _containers(workload: KubernetesObject, spec: tuple[str, ...]) -> "Iterator[PodContainer]":
    for role, field in _FIELDS.items():
        for each in workload.items(*spec, field):
            image = each.get("image")
            if isinstance(image, str) and image:
                yield PodContainer(role, str(each.get("name", "")), image)
