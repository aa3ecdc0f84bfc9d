"""Questions to the API server about itself: its version, and whether it permits a user an action."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_call import ApiAction, ApiProblem, call_api
from keyferry.errors import Kind

__all__ = ["Reviewed", "may_user", "server_version"]

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LEADING = "0123456789"
# More than a version has; int() refuses thousands of digits.
_MOST_DIGITS = 9


class Reviewed(Value):
    """A user, its groups, and the action that is reviewed; *action* has the name of the object."""

    user: str
    groups: tuple[str, ...]
    action: ApiAction


def may_user(
    session: ClusterAccess, question: Reviewed, *, timeout_seconds: float = 60.0
) -> bool | ApiProblem:
    """Return whether the server permits a user an action on a resource without an API group, or the problem.

    Raise ClusterAuthError if the server cannot be reached or the credential cannot be obtained.
    """
    reviewed = question.action
    attributes = {
        "namespace": reviewed.namespace,
        "verb": reviewed.verb,
        "group": "",
        "resource": reviewed.resource,
        "name": reviewed.name,
    }
    spec = {"user": question.user, "groups": list(question.groups), "resourceAttributes": attributes}
    body: dict[str, object] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    }
    action = ApiAction("create", "subjectaccessreviews.authorization.k8s.io")
    answer = call_api(session, action, _REVIEWS, body, timeout_seconds=timeout_seconds)
    if isinstance(answer, ApiProblem):
        return answer
    status = answer.get("status")
    allowed = status.get("allowed") if isinstance(status, dict) else None
    if not isinstance(allowed, bool):
        return ApiProblem(action, Kind.CONTENT, 200, "is not a SubjectAccessReview with a status")
    return allowed


def server_version(session: ClusterAccess, *, timeout_seconds: float = 60.0) -> tuple[int, int] | ApiProblem:
    """Return the server's major and minor version, or the problem; raise ClusterAuthError like ``may_user``."""
    action = ApiAction("get", "/version")
    answer = call_api(session, action, "/version", timeout_seconds=timeout_seconds)
    if isinstance(answer, ApiProblem):
        return answer
    major, minor = (_number(answer.get(name)) for name in ("major", "minor"))
    if not major:
        return ApiProblem(action, Kind.CONTENT, 200, "has no version")
    return major, minor


def _number(value: object) -> int:
    """Return the leading digits of a version, which vendors follow with a plus sign; 0 without any."""
    text = value if isinstance(value, str) else ""
    digits = text[: len(text) - len(text.lstrip(_LEADING))]
    return int(digits[:_MOST_DIGITS] or "0")
