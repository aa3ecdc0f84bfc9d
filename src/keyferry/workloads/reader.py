"""Read objects of a cluster, each once: what many pods share is not asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from keyferry._core.user_info import hide_in_url
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, Json, call_api
from keyferry.workloads.events import PullEvent, pull_events
from keyferry.workloads.objects import RESOURCES, KubernetesObject, ObjectKind

__all__ = ["ClusterReader"]

# Pods are listed by namespace, so the secrets and accounts of few namespaces are needed at a time.
_MAX_REMEMBERED = 256


class ClusterReader:
    """Reads objects of a cluster. It remembers those that ``get`` has returned, and the problems of others.

    Every method raises ClusterAuthError if the server cannot be reached.
    """

    def __init__(self, session: ClusterAccess, timeout_seconds: float) -> None:
        self._session = session
        self._timeout_seconds = timeout_seconds
        self._remembered: OrderedDict[tuple[ObjectKind, str, str], KubernetesObject | ApiProblem] = (
            OrderedDict()
        )

    def get(self, kind: ObjectKind, namespace: str, name: str) -> KubernetesObject | ApiProblem:
        """Return one object, or why it cannot be read."""
        key = (kind, namespace, name)
        found = self._remembered.pop(key, None) or self._get(kind, namespace, name)
        self._remembered[key] = found
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return found

    def list_kind(
        self, kind: ObjectKind, namespace: str, selector: str = ""
    ) -> list[KubernetesObject] | ApiProblem:
        """Return the objects of a kind that have the labels of *selector*, or why they cannot be read."""
        resource = RESOURCES[kind]
        query = {"labelSelector": selector} if selector else {}
        action = ApiAction(verb="list", resource=resource.rule_name, namespace=namespace)
        found = self._items(action, f"{resource.path}/{_place(namespace)}/{resource.plural}", query)
        return found if isinstance(found, ApiProblem) else [self._object(kind, each) for each in found]

    def list_events(self, namespace: str, name: str, uid: str) -> tuple[PullEvent, ...] | ApiProblem:
        """Return the events about pulls of one object, newest last, or why they cannot be read."""
        query = {"fieldSelector": f"involvedObject.name={name},involvedObject.uid={uid}"}
        action = ApiAction(verb="list", resource="events", namespace=namespace)
        found = self._items(action, f"/api/v1/{_place(namespace)}/events", query)
        return found if isinstance(found, ApiProblem) else pull_events(found)

    def _get(self, kind: ObjectKind, namespace: str, name: str) -> KubernetesObject | ApiProblem:
        resource = RESOURCES[kind]
        action = ApiAction(verb="get", resource=resource.rule_name, namespace=namespace, name=name)
        path = f"{resource.path}/{_place(namespace)}/{resource.plural}/{encode_percent(name)}"
        found = self._call(action, path)
        return found if isinstance(found, ApiProblem) else self._object(kind, found)

    def _items(self, action: ApiAction, path: str, query: Mapping[str, str]) -> list[Json] | ApiProblem:
        found = self._call(action, f"{path}?{encode_query(query)}" if query else path)
        if isinstance(found, ApiProblem):
            return found
        items = found.get("items")
        return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []

    def _call(self, action: ApiAction, path: str) -> Json | ApiProblem:
        return call_api(self._session, action, path, timeout_seconds=self._timeout_seconds)

    def _object(self, kind: ObjectKind, value: Json) -> KubernetesObject:
        return KubernetesObject(origin=hide_in_url(self._session.server), kind=kind, value=value)


def _place(namespace: str) -> str:
    return f"namespaces/{encode_percent(namespace)}"
