"""Read a workload from a cluster with the objects that its pulls depend on; what cannot be read is noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value, field
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, Json, call_api
from keyferry.errors import Kind
from keyferry.workloads.events import PullEvent, pull_events
from keyferry.workloads.objects import RESOURCES, KubernetesObject, ObjectKind, Target
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.secrets import secret_names

__all__ = ["LiveWorkload", "fetch_workload"]


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
    reader = _Reader(session, namespace, timeout_seconds)
    found = reader.get(target.kind, target.name)
    return found if isinstance(found, ApiProblem) else reader.complete(found)


class _Reader:
    """Reads the objects of one namespace, and collects notes."""

    def __init__(self, session: ClusterAccess, namespace: str, timeout_seconds: float) -> None:
        self._session = session
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds
        self._notes: list[str] = []

    def complete(self, workload: KubernetesObject) -> LiveWorkload:
        """Return the workload's pod with its account, secrets and events."""
        pod = read_pod(self._choose_pod(workload), self._namespace)
        found = self.get(ObjectKind.SERVICE_ACCOUNT, pod.pod.service_account_name)
        account = None if isinstance(found, ApiProblem) else found
        problem = str(found) if isinstance(found, ApiProblem) else ""
        names = secret_names(pod, account)
        if problem and names is not None:
            self._notes.append(problem)
        secrets, refused = self._secrets(names or ())
        events = self._events(pod) if pod.is_created else ()
        return LiveWorkload(
            pod=pod,
            account=account,
            account_problem=problem,
            secrets=secrets,
            refused=refused,
            events=events,
            notes=tuple(self._notes),
        )

    def get(self, kind: ObjectKind, name: str) -> KubernetesObject | ApiProblem:
        """Return one object."""
        resource = RESOURCES[kind]
        action = ApiAction(verb="get", resource=resource.rule_name, namespace=self._namespace, name=name)
        found = self._call(action, f"{resource.path}/{self._place}/{resource.plural}/{encode_percent(name)}")
        return found if isinstance(found, ApiProblem) else self._object(kind, found)

    def _list(
        self, path: str, plural: str, rule_name: str, selector: Mapping[str, str]
    ) -> list[Json] | ApiProblem:
        action = ApiAction(verb="list", resource=rule_name, namespace=self._namespace)
        query = f"?{encode_query(selector)}" if selector else ""
        found = self._call(action, f"{path}/{self._place}/{plural}{query}")
        if isinstance(found, ApiProblem):
            return found
        items = found.get("items")
        return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []

    def _list_kind(self, kind: ObjectKind, selector: str = "") -> list[KubernetesObject] | ApiProblem:
        resource = RESOURCES[kind]
        query = {"labelSelector": selector} if selector else {}
        found = self._list(resource.path, resource.plural, resource.rule_name, query)
        return found if isinstance(found, ApiProblem) else [self._object(kind, each) for each in found]

    def _call(self, action: ApiAction, path: str) -> Json | ApiProblem:
        return call_api(self._session, action, path, timeout_seconds=self._timeout_seconds)

    @property
    def _place(self) -> str:
        return f"namespaces/{encode_percent(self._namespace)}"

    def _object(self, kind: ObjectKind, value: Json) -> KubernetesObject:
        return KubernetesObject(origin=hide_in_url(self._session.server), kind=kind, value=value)

    def _choose_pod(self, workload: KubernetesObject) -> KubernetesObject:
        """Return a pod of the workload that waits for its image, else its newest, else the workload itself."""
        if workload.kind is ObjectKind.POD:
            return workload
        pods = self._pods_of(workload)
        if isinstance(pods, ApiProblem):
            self._notes.append(
                f"{pods}; the pod template of {workload.kind.lower()} {workload.name!r} is used"
            )
            return workload
        if not pods:
            self._notes.append("it has no pod, so the pod template is explained")
            return workload
        # Pods that have ended, such as evicted ones, tell nothing of those that came after them.
        live = [each for each in pods if not read_pod(each, self._namespace).has_ended] or pods
        failing = next((each for each in live if _is_failing(read_pod(each, self._namespace))), None)
        newest = max(live, key=lambda each: each.text("metadata", "creationTimestamp"))
        chosen = newest if failing is None else failing
        waits = (
            "waits for its image" if failing is not None else "is explained, since none waits for an image"
        )
        self._notes.append(f"pod {chosen.name!r} of {workload.kind.lower()} {workload.name!r} {waits}")
        self._notes += _other_images(read_pod(workload, self._namespace), read_pod(chosen, self._namespace))
        return chosen

    def _pods_of(self, workload: KubernetesObject) -> list[KubernetesObject] | ApiProblem:
        """Return the pods that the workload owns, directly or through its replica sets or jobs."""
        between, selector = _BETWEEN.get(workload.kind), _selector(workload)
        owners: set[str] | None = {workload.uid}
        if between is not None:
            owned = self._list_kind(between)
            if isinstance(owned, ApiProblem) and not selector:
                return owned
            owners = (
                None
                if isinstance(owned, ApiProblem)
                else {each.uid for each in owned if _is_owned(each, {workload.uid})}
            )
        pods = self._list_kind(ObjectKind.POD, selector)
        if isinstance(pods, ApiProblem) or owners is None:
            return pods
        return [each for each in pods if _is_owned(each, owners)]

    def _secrets(self, names: tuple[str, ...]) -> tuple[tuple[KubernetesObject, ...], dict[str, str]]:
        found: list[KubernetesObject] = []
        refused: dict[str, str] = {}
        for name in names:
            secret = self.get(ObjectKind.SECRET, name)
            if not isinstance(secret, ApiProblem):
                found.append(secret)
            else:
                refused[name] = "" if secret.kind is Kind.NOT_FOUND else str(secret)
        return tuple(found), refused

    def _events(self, pod: WorkloadPod) -> tuple[PullEvent, ...]:
        selector = {"fieldSelector": f"involvedObject.name={pod.pod.name},involvedObject.uid={pod.pod.uid}"}
        found = self._list("/api/v1", "events", "events", selector)
        if isinstance(found, ApiProblem):
            self._notes.append(str(found))
            return ()
        return pull_events(found)


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


def _is_failing(pod: WorkloadPod) -> bool:
    return any(each.waits_for_image for each in pod.states)


def _other_images(template: WorkloadPod, pod: WorkloadPod) -> Iterator[str]:
    """Yield a note if the template has images that the pod, which was created before, has not."""
    own = {each.image for each in pod.containers}
    others = [each.image for each in template.containers if each.image not in own]
    if others:
        yield f"the pod template has other images than the pod: {', '.join(others)}"
