"""Read a workload from a cluster with the objects that its pulls depend on; what cannot be read is noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.values import Value, field
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiProblem
from keyferry.errors import Kind
from keyferry.workloads.events import PullEvent
from keyferry.workloads.objects import KubernetesObject, ObjectKind, Target
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.reader import ClusterReader
from keyferry.workloads.secrets import secret_names

__all__ = ["LiveWorkload", "fetch_pod", "fetch_workload"]


class LiveWorkload(Value):
    """A pod of a cluster, or a workload's template, with the objects that could be read.

    *account_problem* is why there is no account. *refused* has the pull secrets that could not be read, with the
    reason; it is empty for a secret that does not exist.
    """

    pod: WorkloadPod
    account: KubernetesObject | None = None
    account_problem: str = ""
    secrets: tuple[KubernetesObject, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    events: tuple[PullEvent, ...] = ()
    notes: tuple[str, ...] = ()


def fetch_workload(
    session: ClusterAccess, target: Target, namespace: str, *, timeout_seconds: float = 60.0
) -> LiveWorkload | ApiProblem:
    """Return the pod *target*, or a failing pod of the workload *target* or else its template, and its objects.

    Return the problem if the target itself cannot be read. Raise ClusterAuthError if the server cannot be reached.
    """
    reader = ClusterReader(session, timeout_seconds)
    found = reader.get(target.kind, namespace, target.name)
    if isinstance(found, ApiProblem):
        return found
    notes: list[str] = []
    chosen = _choose_pod(reader, found, namespace, notes)
    return fetch_pod(reader, read_pod(chosen, namespace), notes)


def fetch_pod(
    reader: ClusterReader, pod: WorkloadPod, notes: Sequence[str] = (), *, has_history: bool = True
) -> LiveWorkload:
    """Return a pod that was read, with its account, its pull secrets and its events; *notes* come first.

    Without *has_history*, what no later pull depends on is not read: the events, and the account of a pod that lists
    pull secrets itself.
    """
    namespace = pod.pod.namespace
    account, problem = None, ""
    if has_history or not pod.listed_secrets:
        found = reader.get(ObjectKind.SERVICE_ACCOUNT, namespace, pod.pod.service_account_name)
        account = None if isinstance(found, ApiProblem) else found
        problem = str(found) if isinstance(found, ApiProblem) else ""
    names = secret_names(pod, account)
    secrets, refused = _secrets(reader, namespace, names or ())
    is_told = has_history and pod.is_created
    events = reader.list_events(namespace, pod.pod.name, pod.pod.uid) if is_told else ()
    own_notes = (problem if names is not None else "", str(events) if isinstance(events, ApiProblem) else "")
    return LiveWorkload(
        pod=pod,
        account=account,
        account_problem=problem,
        secrets=secrets,
        refused=refused,
        events=() if isinstance(events, ApiProblem) else events,
        notes=(*notes, *filter(None, own_notes)),
    )


def _secrets(
    reader: ClusterReader, namespace: str, names: tuple[str, ...]
) -> tuple[tuple[KubernetesObject, ...], dict[str, str]]:
    found: list[KubernetesObject] = []
    refused: dict[str, str] = {}
    for name in names:
        secret = reader.get(ObjectKind.SECRET, namespace, name)
        if not isinstance(secret, ApiProblem):
            found.append(secret)
        else:
            refused[name] = "" if secret.kind is Kind.NOT_FOUND else str(secret)
    return tuple(found), refused


def _choose_pod(
    reader: ClusterReader, workload: KubernetesObject, namespace: str, notes: list[str]
) -> KubernetesObject:
    """Return a pod of the workload that waits for its image, else its newest, else the workload itself."""
    if workload.kind is ObjectKind.POD:
        return workload
    pods = _pods_of(reader, workload, namespace)
    if isinstance(pods, ApiProblem):
        notes.append(f"{pods}; the pod template of {workload.kind.lower()} {workload.name!r} is used")
        return workload
    if not pods:
        notes.append("it has no pod, so the pod template is explained")
        return workload
    # Pods that have ended, such as evicted ones, tell nothing of those that came after them.
    live = [each for each in pods if not read_pod(each, namespace).has_ended] or pods
    failing = next((each for each in live if read_pod(each, namespace).waits_for_image), None)
    newest = max(live, key=lambda each: each.text("metadata", "creationTimestamp"))
    chosen = newest if failing is None else failing
    waits = "waits for its image" if failing is not None else "is explained, since none waits for an image"
    notes.append(f"pod {chosen.name!r} of {workload.kind.lower()} {workload.name!r} {waits}")
    notes += _other_images(read_pod(workload, namespace), read_pod(chosen, namespace))
    return chosen


def _pods_of(
    reader: ClusterReader, workload: KubernetesObject, namespace: str
) -> list[KubernetesObject] | ApiProblem:
    """Return the pods that the workload owns, directly or through its replica sets or jobs."""
    between, selector = _BETWEEN.get(workload.kind), _selector(workload)
    owners: set[str] | None = {workload.uid}
    if between is not None:
        owned = reader.list_kind(between, namespace)
        if isinstance(owned, ApiProblem) and not selector:
            return owned
        owners = (
            None
            if isinstance(owned, ApiProblem)
            else {each.uid for each in owned if _is_owned(each, {workload.uid})}
        )
    pods = reader.list_kind(ObjectKind.POD, namespace, selector)
    if isinstance(pods, ApiProblem) or owners is None:
        return pods
    return [each for each in pods if _is_owned(each, owners)]


# Workloads whose pods belong to objects of another kind.
_BETWEEN = {ObjectKind.DEPLOYMENT: ObjectKind.REPLICA_SET, ObjectKind.CRON_JOB: ObjectKind.JOB}


def _is_owned(item: KubernetesObject, owners: set[str]) -> bool:
    return any(each.get("uid") in owners for each in item.items("metadata", "ownerReferences"))


def _selector(workload: KubernetesObject) -> str:
    """Return the equality terms of the workload's selector; owners decide about the rest."""
    is_plain = workload.kind is ObjectKind.REPLICATION_CONTROLLER
    labels = workload.field("spec", "selector", *(() if is_plain else ("matchLabels",)))
    pairs = labels.items() if isinstance(labels, dict) else ()
    return ",".join(f"{name}={value}" for name, value in pairs)


def _other_images(template: WorkloadPod, pod: WorkloadPod) -> Iterator[str]:
    """Yield a note if the template has images that the pod, which was created before, has not."""
    own = {each.image for each in pod.containers}
    others = [each.image for each in template.containers if each.image not in own]
    if others:
        yield f"the pod template has other images than the pod: {', '.join(others)}"
