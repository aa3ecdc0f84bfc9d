"""The pod of a node agent: found by the labels of the chart, and asked by a command that runs in it."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.errors import EnvironmentProblem
from keyferry.workloads.listing import PodSelection, list_pods
from keyferry.workloads.objects import Json, KubernetesObject

__all__ = ["AGENT_LABEL", "AgentPod", "find_agent_pod"]

# As the chart labels its DaemonSet's pods, and names their container.
AGENT_LABEL = "app.kubernetes.io/name=keyferry"
_CONTAINER = "agent"
_OWNER = "DaemonSet"


class AgentPod(Value):
    """The pod of a node agent that runs on a node, and its container."""

    namespace: str
    name: str
    container: str = _CONTAINER

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_agent_pod(
    session: ClusterAccess, node: str, namespace: str = "", *, timeout_seconds: float = 60.0
) -> AgentPod | None:
    """Return the pod of the agent on *node*, in any namespace unless one is given; None if none runs there.

    Everybody who may create pods can label one like an agent's, so pods of more than one namespace are an error. Raise
    EnvironmentProblem then, and ClusterAuthError if the list is refused or the server cannot be reached.
    """
    selection = PodSelection(namespace=namespace, label_selector=AGENT_LABEL, node=node)
    pods = list(_agents(list_pods(session, selection, timeout_seconds=timeout_seconds)))
    namespaces = sorted({pod.text("metadata", "namespace") for pod in pods})
    if len(namespaces) > 1:
        raise EnvironmentProblem(
            f"node {node!r} has pods like those of a node agent in several namespaces: {', '.join(namespaces)}; "
            "choose one with --agent-namespace"
        )
    chosen = next(iter(sorted(pods, key=_is_ready, reverse=True)), None)
    return None if chosen is None else AgentPod(namespace=namespaces[0], name=chosen.name)


def _agents(pods: Iterator[KubernetesObject]) -> Iterator[KubernetesObject]:
    """Yield the pods whose agent runs."""
    for pod in pods:
        owners = [
            each.get("kind") for each in pod.items("metadata", "ownerReferences") if each.get("controller")
        ]
        statuses = pod.items("status", "containerStatuses")
        is_running = any(each.get("name") == _CONTAINER and _is_running(each) for each in statuses)
        if owners == [_OWNER] and is_running and not pod.text("metadata", "deletionTimestamp"):
            yield pod


def _is_running(status: Json) -> bool:
    state = status.get("state")
    return isinstance(state, dict) and "running" in state


def _is_ready(pod: KubernetesObject) -> bool:
    conditions = pod.items("status", "conditions")
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
