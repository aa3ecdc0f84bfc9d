"""The names of objects of a cluster, for completion: few, quickly, and only those that are harmless in a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyferry._net.deadline import Deadline
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, call_api
from keyferry.workloads.objects import RESOURCES, ObjectKind

__all__ = ["is_object_name", "list_names", "list_namespaces", "list_nodes"]

_MAX_PAGES = 8
_PAGE = "250"
# What Kubernetes permits as the name of an object.
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"


def is_object_name(name: str) -> bool:
    """Return whether Kubernetes permits *name* as that of a node or a pod."""
    return re.fullmatch(_NAME, name) is not None


def list_namespaces(session: ClusterAccess, *, timeout_seconds: float) -> list[str]:
    """Return the names of namespaces; raise ClusterAuthError if the server cannot be reached."""
    return _cluster_names(session, "namespaces", timeout_seconds)


def list_nodes(session: ClusterAccess, *, timeout_seconds: float) -> list[str]:
    """Return the names of nodes; raise ClusterAuthError if the server cannot be reached."""
    return _cluster_names(session, "nodes", timeout_seconds)


def _cluster_names(session: ClusterAccess, resource: str, timeout_seconds: float) -> list[str]:
    action = ApiAction(verb="list", resource=resource)
    return list(_names(session, action, f"/api/v1/{resource}", Deadline(timeout_seconds)))


def list_names(
    session: ClusterAccess, kind: ObjectKind, namespace: str, *, timeout_seconds: float
) -> list[str]:
    """Return the names of a kind's objects in a namespace; raise ClusterAuthError if the server cannot be reached."""
    resource = RESOURCES[kind]
    action = ApiAction(verb="list", resource=resource.rule_name, namespace=namespace)
    path = f"{resource.path}/namespaces/{encode_percent(namespace)}/{resource.plural}"
    return list(_names(session, action, path, Deadline(timeout_seconds)))


def _names(session: ClusterAccess, action: ApiAction, path: str, deadline: Deadline) -> Iterator[str]:
    """Yield the names of a list, page by page, as long as there is time; none after a problem."""
    token = ""
    for _ in range(_MAX_PAGES):
        query = encode_query({"limit": _PAGE, **({"continue": token} if token else {})})
        seconds = deadline.seconds_left
        page = call_api(session, action, f"{path}?{query}", timeout_seconds=seconds) if seconds > 0 else {}
        if isinstance(page, ApiProblem):
            return
        items = page.get("items")
        names = (_text(each, "name") for each in (items if isinstance(items, list) else ()))
        yield from (name for name in names if is_object_name(name))
        token = _text(page, "continue")
        if not token:
            return


def _text(document: object, name: str) -> str:
    """Return a string of an object's metadata; empty if there is none."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    found = metadata.get(name) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""
