"""Call a cluster's API as one action on a resource, and return the document or the problem as values."""

from __future__ import annotations

import json

from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.request import ClusterResponse, request
from keyferry.errors import Kind

__all__ = ["ApiAction", "ApiProblem", "call_api", "read_json", "status_text"]

Json = dict[str, object]

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_LONGEST = 300


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


class ApiProblem(Value):
    """Why an action has no result.

    *kind* is REFUSED for a user that the server does not know or does not permit the action, NOT_FOUND for an object
    that does not exist, CONTENT for a response that cannot be read, and ERROR for any other. *message* is the server's.
    """

    action: ApiAction
    kind: Kind
    status: int
    message: str

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
    timeout_seconds: float = 60.0,
) -> Json | ApiProblem:
    """Send *body* to *path*, or a GET without one, and return the response's document, or the problem.

    Raise ClusterAuthError if the server cannot be reached or the credential cannot be obtained.
    """
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    with request(session, path, method=method, body=data, timeout_seconds=timeout_seconds) as reply:
        document = read_json(reply)
        if not reply.is_success:
            return ApiProblem(
                action, _kind(reply.status), reply.status, status_text(document) or reply.reason
            )
    if not document:
        return ApiProblem(action, Kind.CONTENT, reply.status, "is not a JSON object")
    return document


def read_json(reply: ClusterResponse) -> Json:
    """Return the JSON object in the body; empty for any other body."""
    try:
        document: object = json.loads(reply.read())
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}


def status_text(document: Json) -> str:
    """Return the message of a Status on one line, truncated and with secrets masked; empty if there is none."""
    message = document.get("message")
    return printable(" ".join(redact(message).split())[:_LONGEST]) if isinstance(message, str) else ""


def _kind(status: int) -> Kind:
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return Kind.REFUSED
    return Kind.NOT_FOUND if status == _NOT_FOUND else Kind.ERROR
