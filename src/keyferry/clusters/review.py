"""Send a SelfSubjectReview: under which name and groups the server knows the session's user."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from keyferry._core.values import Value, field, replace
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_call import ApiAction, read_json, status_text
from keyferry.clusters.request import ClusterResponse, request

__all__ = ["ANONYMOUS", "Review", "read_refusal", "review"]

# The user of a request without a credential.
ANONYMOUS = "system:anonymous"

_GROUP = "authentication.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_FORBIDDEN, _NOT_FOUND = 403, 404
# How the API server words a 403 response: the user, and what this user may not do.
_DENIAL = (
    r'User "([^"]{1,255})" cannot ([a-z]{1,32}) (?:resource|path) "([^"]{1,255})"'
    r'(?: in API group "([^"]{0,255})")?'
)


class Review(Value):
    """The user as the server identifies it, or the *status* and *problem* of a response without a review.

    A response with the status 403 may say who the user is, and what this user may not do: *denied*.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    status: int = 0
    problem: str = ""
    denied: ApiAction | None = None


def review(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> Review:
    """Return the server's review. Raises ClusterAuthError without a response or without a credential."""
    answer = Review()
    for version in _VERSIONS:
        answer = _ask(session, version, timeout_seconds)
        if answer.status != _NOT_FOUND:
            break
    return answer


def read_refusal(reply: ClusterResponse) -> Review:
    """Return the status of *reply*, and the problem: its reason phrase, and the message of a Status in its body.

    The message is truncated, and secrets are masked.
    """
    words = status_text(read_json(reply))
    problem = f"{reply.reason}: {words}" if words else reply.reason
    found = re.search(_DENIAL, words) if reply.status == _FORBIDDEN else None
    if found is None:
        return Review(status=reply.status, problem=problem)
    user, verb, what, group = found.groups()
    action = ApiAction(verb, f"{what}.{group}" if group else what)
    return Review(user, status=reply.status, problem=problem, denied=action)


def _ask(session: ClusterAccess, version: str, timeout_seconds: float) -> Review:
    body = json.dumps({"kind": "SelfSubjectReview", "apiVersion": f"{_GROUP}/{version}"}).encode()
    path = f"/apis/{_GROUP}/{version}/selfsubjectreviews"
    with request(session, path, method="POST", body=body, timeout_seconds=timeout_seconds) as reply:
        if reply.is_success:
            return _identity(reply)
        refusal = read_refusal(reply)
        if reply.status != _NOT_FOUND:
            return refusal
        why = "the server does not support SelfSubjectReview, which requires Kubernetes 1.27"
        return replace(refusal, problem=f"{refusal.problem}; {why}")


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
