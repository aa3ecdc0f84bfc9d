"""Send a SelfSubjectReview: under which name and groups the server knows the session's user."""

import json
from collections.abc import Mapping

from keyferry._core.values import Value, field
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_call import read_json, status_text
from keyferry.clusters.request import ClusterResponse, request

__all__ = ["Review", "review"]

_GROUP = "authentication.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_NOT_FOUND = 404


class Review(Value):
    """The user as the server identifies it, or the *status* and *problem* of a response without a user."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    status: int = 0
    problem: str = ""


def review(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> Review:
    """Return the server's review. Raises ClusterAuthError without a response or without a credential."""
    answer = Review()
    for version in _VERSIONS:
        answer = _ask(session, version, timeout_seconds)
        if answer.status != _NOT_FOUND:
            break
    return answer


def status_message(reply: ClusterResponse) -> str:
    """Return the reason phrase and the message of a Status in the body, truncated and with secrets masked."""
    words = status_text(read_json(reply))
    return f"{reply.reason}: {words}" if words else reply.reason


def _ask(session: ClusterAccess, version: str, timeout_seconds: float) -> Review:
    body = json.dumps({"kind": "SelfSubjectReview", "apiVersion": f"{_GROUP}/{version}"}).encode()
    path = f"/apis/{_GROUP}/{version}/selfsubjectreviews"
    with request(session, path, method="POST", body=body, timeout_seconds=timeout_seconds) as reply:
        if reply.is_success:
            return _identity(reply)
        why = "; the server does not support SelfSubjectReview, which requires Kubernetes 1.27"
        problem = status_message(reply) + (why if reply.status == _NOT_FOUND else "")
        return Review(status=reply.status, problem=problem)


def _identity(reply: ClusterResponse) -> Review:
    status = read_json(reply).get("status")
    info = status.get("userInfo") if isinstance(status, dict) else None
    if not isinstance(info, dict) or not isinstance(info.get("username"), str):
        return Review(status=reply.status, problem="without a SelfSubjectReview")
    extra = info.get("extra")
    return Review(
        info["username"],
        str(info.get("uid") or ""),
        _texts(info.get("groups")),
        {str(name): _texts(values) for name, values in extra.items()} if isinstance(extra, dict) else {},
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list) else ()
