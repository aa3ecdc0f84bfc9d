"""What the pods and workloads of a cluster need from registries: those that need the same are one use."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import replace
from keyferry.clusters.access import ClusterAccess
from keyferry.errors import EnvironmentProblem, ImageNameError, PullSecretError
from keyferry.explain.cluster.counts import Counts
from keyferry.explain.cluster.prepare import alone
from keyferry.images.answer import Answer
from keyferry.images.node.settings import Node
from keyferry.images.reference import ImageName, parse_image
from keyferry.workloads.inputs import Inputs, Sources, resolve
from keyferry.workloads.live import fetch_pod
from keyferry.workloads.node import choose_node
from keyferry.workloads.objects import KubernetesObject, ObjectKind
from keyferry.workloads.pods import ContainerRole, WorkloadPod, read_pod
from keyferry.workloads.reader import ClusterReader
from keyferry.workloads.request import Request
from keyferry.workloads.sources import cluster_sources
from keyferry.workloads.tokens import ClusterAccounts, NodeTokens

__all__ = ["MAX_DIGESTS", "MAX_USES", "WORKLOADS", "ImageUse", "ImageUses", "has_no_pod"]

# So many uses are kept; the images of pods beyond them are counted only.
MAX_USES = 50_000
# So many different digests are kept of the image that the containers of a use run.
MAX_DIGESTS = 3
_MAX_NAME = 300
# The workloads whose templates count, with the field of their status that has the number of their pods.
WORKLOADS = {
    ObjectKind.DEPLOYMENT: "replicas",
    ObjectKind.STATEFUL_SET: "replicas",
    ObjectKind.DAEMON_SET: "currentNumberScheduled",
    ObjectKind.JOB: "active",
    ObjectKind.CRON_JOB: "active",
}

Key = tuple[object, ...]


class ImageUse:
    """An image that pods of one namespace need with the same sources of credentials.

    *inputs* are those of one of the pods, and *answer* the credentials that its kubelet finds. *problem* is why there
    is no answer. *example* names a pod or workload as commands do; *digests* are those that run.
    """

    def __init__(self, image: str, name: ImageName | None, inputs: Inputs | None) -> None:
        self.image = image
        self.name = name
        self.inputs = inputs
        self.answer: Answer | None = None
        self.problem = ""
        self.example = ""
        self.namespace = ""
        self.pods = self.workloads = 0
        self.digests: list[str] = []

    def note(self, pod: WorkloadPod, digests: Iterator[str]) -> None:
        """Count a pod or a workload among those that need the image."""
        if pod.is_template:
            self.workloads += 1
        else:
            self.pods += 1
        if not self.example:
            self.example = f"{pod.workload.kind.lower()}/{pod.workload.name}"
            self.namespace = pod.pod.namespace
        for digest in digests:
            if digest not in self.digests and len(self.digests) < MAX_DIGESTS:
                self.digests.append(digest)


class ImageUses:
    """The uses of the pods and workloads that were added, in bounded memory; each secret and account is read once.

    *shared* are the inputs that all pods have: those of the node, with its providers.
    *left_out* is the number of images of pods that are beyond the bound, *never* the number of pods with an image that
    their policy forbids to pull. *pods* and *workloads* count those that have a use.
    """

    def __init__(self, request: Request, session: ClusterAccess) -> None:
        self._request = request
        self._reader = ClusterReader(session, request.timeout_seconds)
        self.shared = _shared_inputs(request, session, self._reader)
        self._places: dict[Key, Inputs | str] = {}
        self._found: dict[Key, ImageUse] = {}
        self.pods = Counts()
        self.workloads = Counts()
        self.left_out = self.never = 0

    def __iter__(self) -> Iterator[tuple[Key, ImageUse]]:
        """Yield the uses with their keys, in the order of the pods."""
        yield from self._found.items()

    def __len__(self) -> int:
        return len(self._found)

    def add(self, item: KubernetesObject) -> None:
        """Add a pod, or a workload without pods; raise EnvironmentProblem for a field of the wrong type."""
        pod = read_pod(item)
        if pod.has_ended:
            return
        needed = [each for each in pod.containers if each.role is not ContainerRole.EPHEMERAL]
        images = dict.fromkeys(each.image for each in needed if not each.is_never_pulled)
        self.never += any(each.is_never_pulled for each in needed)
        keys = [key for image in images if (key := self._use(pod, image)) is not None]
        (self.workloads if pod.is_template else self.pods).add(keys)

    def _use(self, pod: WorkloadPod, image: str) -> Key | None:
        """Count the pod among those that need the image, and return the key of the use; None beyond the bound."""
        try:
            name = parse_image(image)
            text = name.in_full().text
        except ImageNameError:
            name, text = None, image[:_MAX_NAME]
        key = (text, *_place(pod))
        if key not in self._found:
            if len(self._found) >= MAX_USES:
                self.left_out += 1
                return None
            self._found[key] = self._look_up(pod, image, name)
        self._found[key].note(pod, _running_digests(pod, image))
        return key

    def _look_up(self, pod: WorkloadPod, image: str, name: ImageName | None) -> ImageUse:
        """Return the use of an image with the credentials that a kubelet finds for it."""
        place = _place(pod)
        if place not in self._places:
            self._places[place] = self._inputs(pod)
        inputs = self._places[place]
        if isinstance(inputs, str):
            use = ImageUse(hide_user_info(image), name, None)
            use.problem = inputs
            return use
        use = ImageUse(hide_user_info(image), name, inputs)
        try:
            use.answer = inputs.lookup(parse_image(image))
        except ImageNameError as error:
            use.problem = f"InvalidImageName: {error}"
        return use

    def _inputs(self, pod: WorkloadPod) -> Inputs | str:
        """Return the inputs of a pod, or why there are none."""
        target = f"{pod.workload.kind.lower()}/{pod.workload.name}"
        one = alone(self._request, target, pod.pod.namespace)
        try:
            sources = self._sources(one, pod)
        except (EnvironmentProblem, PullSecretError) as error:
            return str(error)
        missing = (*sources.missing, *self.shared.sources.missing)
        return replace(self.shared, request=one, sources=replace(sources, missing=missing))

    def _sources(self, request: Request, pod: WorkloadPod) -> Sources:
        kept = pod.without_content()
        if pod.is_created and pod.is_controlled and not pod.listed_secrets:
            # The pod that comes after it gets the secrets that its account lists then.
            new = replace(kept, pod=replace(kept.pod, uid=""))
            live = fetch_pod(self._reader, new, has_history=False)
            if live.account is not None:
                return cluster_sources(request, live, is_of_many=True)
        return cluster_sources(request, fetch_pod(self._reader, kept, has_history=False), is_of_many=True)


def has_no_pod(workload: KubernetesObject) -> bool:
    """Return whether a workload has no pod now and may get one: not a job that has ended, or that has an owner."""
    if workload.kind is ObjectKind.JOB:
        is_owned = any(each.get("controller") for each in workload.items("metadata", "ownerReferences"))
        conditions = workload.items("status", "conditions")
        has_ended = any(
            each.get("type") in ("Complete", "Failed") and each.get("status") == "True" for each in conditions
        )
        if is_owned or has_ended:
            return False
    return not workload.field("status", WORKLOADS[workload.kind])


def _shared_inputs(request: Request, session: ClusterAccess, reader: ClusterReader) -> Inputs:
    """Return the inputs without those of a pod: the files of this machine count if it is known to be the node."""
    node = request.node or Node()
    if request.on_node:
        node = choose_node(request, request.on_node)
    elif not request.here:
        node = Node(elsewhere="this machine is not known to be the pods' node")
    accounts = ClusterAccounts(
        session=session,
        reader=reader,
        node=NodeTokens(name=request.on_node),
        timeout_seconds=request.timeout_seconds,
        is_requested=request.request_token,
    )
    return resolve(replace(request, node=node), Sources(accounts=accounts))


def _place(pod: WorkloadPod) -> Key:
    """Return what the credentials of a pod depend on, beside the image."""
    own = (pod.pod.namespace, pod.pod.service_account_name, pod.listed_secrets)
    return (*own, pod.is_template, pod.is_static, pod.is_controlled)


def _running_digests(pod: WorkloadPod, image: str) -> Iterator[str]:
    """Yield the digests of an image that the pod's containers run, as far as their runtime tells."""
    names = {(each.role, each.name) for each in pod.containers if each.image == image}
    for state in pod.states:
        _, _, digest = state.image_id.rpartition("@")
        if digest and "@" in state.image_id and (state.role, state.name) in names:
            yield digest
