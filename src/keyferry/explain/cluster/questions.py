"""What the pods of a cluster that wait for images ask: pods that wait for the same reason ask one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.values import Value, replace
from keyferry.errors import EnvironmentProblem, ImageNameError
from keyferry.explain.cluster.counts import Counts
from keyferry.explain.evidence import failure_of_state
from keyferry.images.reference import parse_image
from keyferry.pulls.failure_text import FailureKind, PullFailure
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.pods import ContainerState, WorkloadPod, has_waiting_container, read_pod

__all__ = [
    "MAX_EXAMPLES",
    "MAX_NAMES",
    "MAX_QUESTIONS",
    "Key",
    "Question",
    "Questions",
    "WaitingImage",
    "registry_in",
]

# So many questions are explained in full, with three requests each; of other pods there is what the runtime says.
MAX_QUESTIONS = 5_000
# So many registries with what they said are told of the others.
_MAX_UNEXPLAINED = 300
# So many names are kept of the images, namespaces and nodes of a question.
MAX_NAMES = 1_000
MAX_EXAMPLES = 20
_MAX_TEXT = 300
# Failures that no credential and no other part of the pod changes: the host decides.
_OF_THE_HOST = frozenset(
    {
        FailureKind.AUTHORITY,
        FailureKind.CANCELED,
        FailureKind.CERTIFICATE,
        FailureKind.CLIENT_CERTIFICATE,
        FailureKind.DNS,
        FailureKind.PROTOCOL,
        FailureKind.SERVER,
        FailureKind.STORE,
        FailureKind.TIMEOUT,
        FailureKind.UNREACHABLE,
    }
)

Key = tuple[object, ...]


class WaitingImage(Value):
    """An image that a pod waits for, with the *state* of a container that waits for it.

    *failure* is None if the state does not tell why.
    """

    pod: WorkloadPod
    image: str
    state: ContainerState
    failure: PullFailure | None = None

    @property
    def said(self) -> str:
        """What the kubelet and its runtime say in the pod's status."""
        return ": ".join(filter(None, (self.state.reason, self.state.message)))


class Question:
    """What several pods ask: *first* stands for all of them. If not *is_explained*, there are too many questions."""

    def __init__(self, first: WaitingImage, *, is_explained: bool = True) -> None:
        self.first = replace(first, pod=first.pod.without_document())
        self.is_explained = is_explained
        self.since: float | None = None
        self.images: dict[str, None] = {}
        self.namespaces: dict[str, None] = {}
        self.nodes: dict[str, None] = {}
        self.examples: dict[str, None] = {}

    def add(self, waiting: WaitingImage) -> None:
        """Count a pod and its image among those that ask it."""
        pod, since = waiting.pod, waiting.pod.unready_since
        if since is not None:
            self.since = since if self.since is None else min(self.since, since)
        _keep(self.images, waiting.image)
        _keep(self.namespaces, pod.pod.namespace)
        _keep(self.nodes, pod.node_name)
        _keep(self.examples, f"{pod.pod.namespace}/{pod.pod.name}", MAX_EXAMPLES)


def _keep(names: dict[str, None], name: str, limit: int = MAX_NAMES) -> None:
    if len(names) < limit:
        names[name] = None


class Questions:
    """The questions of the pods that were added, in bounded memory: of each, one pod is kept.

    *total* is the number of pods, *waiting* that of those that wait for an image, *unread* that of those that cannot be
    read. *is_here* tells of a node's name whether this machine is that node, so that its files count.
    """

    def __init__(self, is_here: Callable[[str], bool]) -> None:
        self._is_here = is_here
        self._found: dict[Key, Question] = {}
        self._pods = Counts()
        self.total = self.waiting = self.unread = 0
        self.first_problem = ""

    def __iter__(self) -> Iterator[tuple[Key, Question]]:
        """Yield the questions with their keys, in the order of the pods."""
        yield from self._found.items()

    def add(self, item: KubernetesObject) -> None:
        """Count a pod, and what it asks if it waits for an image; one with a field of the wrong type is *unread*."""
        self.total += 1
        try:
            if has_waiting_container(item):
                self._add(read_pod(item))
        except EnvironmentProblem as problem:
            self.unread += 1
            self.first_problem = self.first_problem or str(problem)

    def _add(self, pod: WorkloadPod) -> None:
        if pod.has_ended or not pod.waits_for_image:
            return
        self.waiting += 1
        self._pods.add([self._ask(each) for each in _waiting_images(pod)])

    def count_pods(self, keys: set[Key]) -> int:
        """Return how many pods ask one of the questions with these *keys*."""
        return self._pods.count(keys)

    def _ask(self, waiting: WaitingImage) -> Key:
        key = self._key(waiting)
        is_explained = key in self._found or len(self._found) < MAX_QUESTIONS
        if not is_explained:
            key = self._key_of_what_is_said(waiting)
        if key not in self._found:
            self._found[key] = Question(waiting, is_explained=is_explained)
        self._found[key].add(waiting)
        return key

    def _key_of_what_is_said(self, waiting: WaitingImage) -> Key:
        failure = waiting.failure
        kind = FailureKind.UNKNOWN if failure is None else failure.kind
        if failure is None or len(self._found) >= MAX_QUESTIONS + _MAX_UNEXPLAINED:
            return (kind,)
        return (kind, failure.status, failure.host, registry_in(waiting.image))

    def _key(self, waiting: WaitingImage) -> Key:
        """Return all that the explanation of an image depends on."""
        failure, pod = waiting.failure, waiting.pod
        registry, path = _parts(waiting.image)
        happened: Key = ()
        if failure is not None:
            detail = failure.detail
            if failure.kind is FailureKind.UNKNOWN:
                detail = failure.text.replace(waiting.image, "")[:_MAX_TEXT]
            happened = (failure.kind, failure.status, failure.host, failure.role, detail)
            if failure.kind in _OF_THE_HOST:
                return (registry, self._is_here(pod.node_name), *happened)
        place = (pod.pod.namespace, pod.pod.service_account_name, pod.listed_secrets, pod.is_static)
        policies = tuple(dict.fromkeys(each.is_never_pulled for each in pod.using(waiting.image)))
        return (registry, self._is_here(pod.node_name), *happened, path, *place, *policies)


def _waiting_images(pod: WorkloadPod) -> Iterator[WaitingImage]:
    """Yield each image that the pod waits for once: that of a container, or that of a volume which it mounts."""
    containers = {(each.role, each.name): each.image for each in pod.containers}
    found: dict[str, WaitingImage] = {}
    for state in pod.states:
        if not state.waits_for_image:
            continue
        named = pod.using(state.image) if state.image else ()
        image = named[0].image if named else containers.get((state.role, state.name), "")
        found.setdefault(
            image, WaitingImage(pod=pod, image=image, state=state, failure=failure_of_state(state))
        )
    yield from found.values()


def registry_in(image: str) -> str:
    """Return the registry that an image names; empty for a name that cannot be parsed."""
    return _parts(image)[0]


def _parts(image: str) -> tuple[str, str]:
    try:
        name = parse_image(image)
    except ImageNameError:
        return "", image
    return name.registry, name.path
