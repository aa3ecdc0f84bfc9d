"""Request a token of a service account from the API server, optionally bound to a pod (TokenRequest)."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry._net.forms import encode_percent
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_call import ApiAction, ApiProblem, Json, call_api
from keyferry.errors import Kind

__all__ = ["BoundPod", "IssuedToken", "request_token"]

_API_VERSION, _KIND = "authentication.k8s.io/v1", "TokenRequest"


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
    action = ApiAction("create", "serviceaccounts/token", namespace, account)
    place = f"/api/v1/namespaces/{encode_percent(namespace)}/serviceaccounts/{encode_percent(account)}/token"
    body = _request(namespace, account, audience, pod, account_uid, expiration_seconds)
    answer = call_api(session, action, place, body, timeout_seconds=timeout_seconds)
    return answer if isinstance(answer, ApiProblem) else _issued(action, answer)


def _request(  # noqa: PLR0917 - each one is a field
    namespace: str,
    account: str,
    audience: str,
    pod: BoundPod | None,
    account_uid: str,
    expiration_seconds: int | None,
) -> Json:
    uid = {"uid": account_uid} if account_uid else {}
    spec: Json = {"audiences": [audience] if audience else [], "expirationSeconds": expiration_seconds}
    if pod is not None:
        bound_uid = {"uid": pod.uid} if pod.uid else {}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, **bound_uid}
    metadata = {"name": account, "namespace": namespace, **uid}
    return {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": metadata, "spec": spec}


def _issued(action: ApiAction, answer: Json) -> IssuedToken | ApiProblem:
    status = answer.get("status")
    token = status.get("token") if isinstance(status, dict) else None
    if answer.get("kind") != _KIND or not isinstance(token, str) or not token:
        # The response may hold a token in another place, so no part of it is quoted.
        return ApiProblem(action, Kind.CONTENT, 200, f"is not a {_KIND} with a token")
    expires = status.get("expirationTimestamp") if isinstance(status, dict) else None
    return IssuedToken(token, expires if isinstance(expires, str) else "")
