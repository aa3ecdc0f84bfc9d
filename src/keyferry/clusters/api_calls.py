"""Calls of a cluster's API: any action, a review of the user, an access review, its version, and a token request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.json import read_object
from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value, field, replace
from keyferry._net.forms import encode_percent
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.request import ClusterResponse, request
from keyferry.errors import ClusterAuthError, Kind

Json = dict[str, object]

# The user of a request without a credential.
ANONYMOUS = "system:anonymous"

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_MAX_MESSAGE = 300
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
# How pod security words its refusal of a pod.
_POD_SECURITY = 'violates PodSecurity "'
# How the API server words a 403 response: the user, and what this user may not do.
_DENIAL = (
    r'User "([^"]{1,255})" cannot ([a-z]{1,32}) (?:resource|path) "([^"]{1,255})"'
    r'(?: in API group "([^"]{0,255})")?'
)


class ApiAction(Value):
    """What a request does, in the words of an RBAC rule: a *verb* on a *resource*, in a *namespace*.

    *resource* has its API group after a dot and its subresource after a slash: ``deployments.apps``,
    ``serviceaccounts/token``. *name* is empty for an action on all objects.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{place}"


class Denial(StrEnum):
    """What forbids an action: a right that the user lacks, or the level of pod security of the namespace."""

    RIGHT = "right"
    POD_SECURITY = "pod-security"


class ApiProblem(Value):
    """Why an action has no result.

    *kind* is REFUSED for a user that the server does not know or does not permit the action, NOT_FOUND for an object
    that does not exist, CONTENT for a response that cannot be read, and ERROR for any other. *message* is the server's.
    *next_page* is the token for the rest of a list whose own token has expired, if the server gives one. *denial* is
    what forbids the action, if that is known; a quota or a webhook may, too, and says so itself.
    """

    action: ApiAction
    kind: Kind
    status: int
    message: str
    next_page: str = ""
    denial: Denial | None = None

    def __str__(self) -> str:
        said = f": {self.message}" if self.message else ""
        if self.kind is Kind.NOT_FOUND:
            return f"cannot {self.action}: not found{said}"
        if self.status == _FORBIDDEN:
            return f"no permission to {self.action}{said}"
        if self.kind is Kind.CONTENT:
            return f"cannot {self.action}: the response {self.message}"
        return f"cannot {self.action}: the server responded {self.status}{said}"


def call_api(
    session: ClusterAccess,
    action: ApiAction,
    path: str,
    body: Json | None = None,
    *,
    method: str = "",
    timeout_seconds: float = 60.0,
) -> Json | ApiProblem:
    """Send *body* to *path*, or a GET without one, and return the response's document, or the problem.

    A body is sent by POST unless there is a *method*.

    Raise ClusterAuthError if the server cannot be reached or the credential cannot be obtained.
    """
    data = b"" if body is None else json.dumps(body).encode()
    method = method or ("GET" if body is None else "POST")
    with request(session, path, method=method, body=data, timeout_seconds=timeout_seconds) as reply:
        if not reply.is_success:
            return problem_of(action, reply)
        document = read_object(reply.read()) or {}
    if not document:
        return _unreadable(action, "is not a JSON object", reply.status)
    return document


def next_page(document: Json) -> str:
    """Return the token for the rest of a list that comes in pages; empty at its end."""
    metadata = document.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return token if isinstance(token, str) else ""


def problem_of(action: ApiAction, reply: ClusterResponse) -> ApiProblem:
    """Return why *action* has no result, by a response that is no success."""
    return read_status(action, reply.status, read_object(reply.read()) or {}, reply.reason)


def read_status(action: ApiAction, status: int, document: Json, reason: str = "") -> ApiProblem:
    """Return the problem with the message of a Status, or else the *reason* of the response."""
    message = _status_text(document) or reason
    return ApiProblem(
        action=action,
        kind=_kind(status),
        status=status,
        message=message,
        next_page=next_page(document),
        denial=_denial(message) if status == _FORBIDDEN else None,
    )


def _denial(said: str) -> Denial | None:
    if _POD_SECURITY in said:
        return Denial.POD_SECURITY
    return Denial.RIGHT if re.search(_DENIAL, said) else None


def _status_text(document: Json) -> str:
    """Return the message of a Status on one line, truncated and with secrets masked; empty if there is none."""
    message = document.get("message")
    return printable(" ".join(redact(message).split())[:_MAX_MESSAGE]) if isinstance(message, str) else ""


def _unreadable(action: ApiAction, message: str, status: int = 200) -> ApiProblem:
    return ApiProblem(action=action, kind=Kind.CONTENT, status=status, message=message)


def _kind(status: int) -> Kind:
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return Kind.REFUSED
    return Kind.NOT_FOUND if status == _NOT_FOUND else Kind.ERROR


class ClusterIdentity(Value):
    """A user as a server identifies it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Review(ClusterIdentity):
    """The user as the server identifies it, or the *status* and *problem* of a response without a review.

    A response with the status 403 may say who the user is, and what this user may not do: *denied*.
    """

    status: int = 0
    problem: str = ""
    denied: ApiAction | None = None


def identify_user(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> ClusterIdentity:
    """Return as whom the server knows the user; raise ClusterAuthError if it does not say so."""
    found = review(session, timeout_seconds=timeout_seconds)
    if found.status:
        raise ClusterAuthError(session.server, f"the server responded {found.status} {found.problem}")
    return ClusterIdentity(username=found.username, uid=found.uid, groups=found.groups, extra=found.extra)


def review(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> Review:
    """Return under which name and groups the server knows the user, by a SelfSubjectReview.

    Raises ClusterAuthError without a response or without a credential.
    """
    answer = Review()
    for version in ("v1", "v1beta1"):
        answer = _review(session, version, timeout_seconds)
        if answer.status != _NOT_FOUND:
            break
    return answer


def read_refusal(reply: ClusterResponse) -> Review:
    """Return the status of *reply*, and the problem: its reason phrase, and the message of a Status in its body.

    The message is truncated, and secrets are masked.
    """
    words = _status_text(read_object(reply.read()) or {})
    problem = f"{reply.reason}: {words}" if words else reply.reason
    found = re.search(_DENIAL, words) if reply.status == _FORBIDDEN else None
    if found is None:
        return Review(status=reply.status, problem=problem)
    user, verb, what, group = found.groups()
    action = ApiAction(verb=verb, resource=f"{what}.{group}" if group else what)
    return Review(username=user, status=reply.status, problem=problem, denied=action)


def _review(session: ClusterAccess, version: str, timeout_seconds: float) -> Review:
    body = json.dumps({"kind": "SelfSubjectReview", "apiVersion": f"{_AUTHENTICATION}/{version}"}).encode()
    path = f"/apis/{_AUTHENTICATION}/{version}/selfsubjectreviews"
    with request(session, path, method="POST", body=body, timeout_seconds=timeout_seconds) as reply:
        if reply.is_success:
            return _identity(reply)
        refusal = read_refusal(reply)
        if reply.status != _NOT_FOUND:
            return refusal
        why = "the server does not support SelfSubjectReview, which requires Kubernetes 1.27"
        return replace(refusal, problem=f"{refusal.problem}; {why}")


def _identity(reply: ClusterResponse) -> Review:
    status = (read_object(reply.read()) or {}).get("status")
    info = status.get("userInfo") if isinstance(status, dict) else None
    if not isinstance(info, dict) or not isinstance(info.get("username"), str):
        return Review(status=reply.status, problem="without a SelfSubjectReview")
    extra = info.get("extra")
    return Review(
        username=info["username"],
        uid=str(info.get("uid") or ""),
        groups=_texts(info.get("groups")),
        extra={str(name): _texts(each) for name, each in extra.items()} if isinstance(extra, dict) else {},
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list) else ()


def may_user(
    session: ClusterAccess,
    user: str,
    groups: tuple[str, ...],
    action: ApiAction,
    *,
    timeout_seconds: float = 60.0,
) -> bool | ApiProblem:
    """Return whether the server permits a user an action on a resource without an API group, or the problem.

    *action* has the name of the object. Raise ClusterAuthError if the server cannot be reached or the credential cannot
    be obtained.
    """
    attributes = {
        "namespace": action.namespace,
        "verb": action.verb,
        "group": "",
        "resource": action.resource,
        "name": action.name,
    }
    body: Json = {
        "apiVersion": f"{_AUTHORIZATION}/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
    }
    asked = ApiAction(verb="create", resource=f"subjectaccessreviews.{_AUTHORIZATION}")
    path = f"/apis/{_AUTHORIZATION}/v1/subjectaccessreviews"
    answer = call_api(session, asked, path, body, timeout_seconds=timeout_seconds)
    if isinstance(answer, ApiProblem):
        return answer
    status = answer.get("status")
    allowed = status.get("allowed") if isinstance(status, dict) else None
    if not isinstance(allowed, bool):
        return _unreadable(asked, "is not a SubjectAccessReview with a status")
    return allowed


def server_version(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> tuple[int, int] | ApiProblem:
    """Return the server's major and minor version, or the problem; raise ClusterAuthError like ``may_user``."""
    action = ApiAction(verb="get", resource="/version")
    answer = call_api(session, action, "/version", timeout_seconds=timeout_seconds)
    if isinstance(answer, ApiProblem):
        return answer
    major, minor = (_number(answer.get(name)) for name in ("major", "minor"))
    return (major, minor) if major else _unreadable(action, "has no version")


def _number(value: object) -> int:
    """Return the leading digits of a version, which vendors follow with a plus sign; 0 without any."""
    # No version is longer, and int() refuses thousands of digits.
    found = re.match(r"[0-9]{1,9}", value) if isinstance(value, str) else None
    return int(found[0]) if found else 0


class BoundPod(Value):
    """The pod that a token is bound to: the token is invalid once the pod of this name and UID is deleted."""

    name: str
    uid: str = ""


class IssuedToken(Value):
    """A token that the server issued, and its expiry as the server wrote it."""

    token: str = field(repr=False)
    expires: str = ""


def request_token(
    session: ClusterAccess,
    namespace: str,
    account: str,
    *,
    audience: str = "",
    pod: BoundPod | None = None,
    account_uid: str = "",
    expiration_seconds: int | None = None,
    timeout_seconds: float = 60.0,
) -> IssuedToken | ApiProblem:
    """Return a token of the service account *account* for one *audience*, or the problem.

    Without an audience the token is for the API server itself, and without *expiration_seconds* the server chooses
    the expiry, as for a kubelet. The server refuses less than 600 seconds, an *account_uid* or a UID of *pod* that
    is not that of the object, and a pod of another account. Raise ClusterAuthError if the server cannot be reached
    or the credential cannot be obtained.
    """
    action = ApiAction(verb="create", resource="serviceaccounts/token", namespace=namespace, name=account)
    path = f"/api/v1/namespaces/{encode_percent(namespace)}/serviceaccounts/{encode_percent(account)}/token"
    metadata = {"name": account, "namespace": namespace, **({"uid": account_uid} if account_uid else {})}
    spec: Json = {"audiences": [audience] if audience else [], "expirationSeconds": expiration_seconds}
    if pod is not None:
        pod_uid = {"uid": pod.uid} if pod.uid else {}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, **pod_uid}
    body: Json = {
        "apiVersion": f"{_AUTHENTICATION}/v1",
        "kind": "TokenRequest",
        "metadata": metadata,
        "spec": spec,
    }
    answer = call_api(session, action, path, body, timeout_seconds=timeout_seconds)
    if isinstance(answer, ApiProblem):
        return answer
    status = answer.get("status")
    found = status if isinstance(status, dict) else {}
    token, expires = found.get("token"), found.get("expirationTimestamp")
    if answer.get("kind") != "TokenRequest" or not isinstance(token, str) or not token:
        # The response may hold a token in another place, so no part of it is quoted.
        return _unreadable(action, "is not a TokenRequest with a token")
    return IssuedToken(token=token, expires=expires if isinstance(expires, str) else "")
