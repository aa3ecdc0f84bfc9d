"""Exec plugins of kubeconfigs: from what the client tells to a token or certificate, and the executable around it."""

import os

from keyferry._core.json import decode_utf8
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication.v1 import (
    GROUP,
    KIND,
    ClusterInfo,
    ExecCredentialStatus,
    encode_exec_credential,
)
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.stdio import deliver

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    ProvideCluster = Callable[["ExecRequest"], "ExecResponse"]

__all__ = ["ClusterInfo", "ExecRequest", "ExecResponse", "respond_cluster", "serve_cluster"]

VARIABLE = "KUBERNETES_EXEC_INFO"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"
_VERSIONS = (V1, V1BETA1)
_NANOSECONDS = 1_000_000_000
# What RFC 3339 can say: the year has four digits.
_LAST_SECOND = 253_402_300_799


class ExecRequest(Value):
    """What the client tells: whether the user can be asked something, and the cluster, if the config says so.

    *api_version* is the one to answer in. *is_informed* is False where there is no KUBERNETES_EXEC_INFO: then a
    person, or a script, has started the plugin.
    """

    api_version: str = V1BETA1
    interactive: bool = False
    cluster: ClusterInfo | None = None
    is_informed: bool = True


class ExecResponse(Value):
    """What to answer: a token, or a certificate and key as PEM, or both; *expires_at* in Unix seconds, if known."""

    token: str = field(default="", repr=False)
    expires_at: float | None = None
    client_certificate_data: str = ""
    client_key_data: str = field(default="", repr=False)


def serve_cluster(provide: "ProvideCluster") -> "Never":
    """Be an exec plugin of a kubeconfig: read KUBERNETES_EXEC_INFO, call *provide*, answer, exit.

    A ProvideError from it, and any other exception, becomes a message on standard error and exit status 1, with
    nothing on standard output.
    """
    deliver(lambda: respond_cluster(provide, os.environ.get(VARIABLE, "")))


def respond_cluster(provide: "ProvideCluster", exec_info: str) -> bytes:
    """The answer to what KUBERNETES_EXEC_INFO says, as bytes; raises what *provide* raises, and ProvideError."""
    request = read_exec_request(exec_info)
    response = provide(request)
    if not isinstance(response, ExecResponse):
        raise ProvideError(f"the plugin's function returned {type(response).__name__}, not an ExecResponse")
    return encode_exec_credential(_check(response), request.api_version)


def read_exec_request(exec_info: str) -> ExecRequest:
    """What KUBERNETES_EXEC_INFO says; without it, or without a version in it, v1beta1 is meant, as everywhere."""
    if not exec_info.strip():
        return ExecRequest(interactive=os.isatty(0), is_informed=False)
    text = decode_utf8(exec_info.encode("utf-8", "surrogateescape"))
    document = _read(text)
    api_version = document.get("apiVersion") or V1BETA1
    if api_version not in _VERSIONS or document.get("kind", KIND) != KIND:
        raise ProvideError(
            f"{VARIABLE}: apiVersion is {_name(api_version)} and kind {_name(document.get('kind'))},"
            f" expected {V1} or {V1BETA1}, and {KIND}",
            "set apiVersion in the kubeconfig's exec entry to one of them",
        )
    spec = document.get("spec")
    if spec is not None and not isinstance(spec, dict):
        raise ProvideError(f"{VARIABLE}: spec is not an object")
    is_interactive = spec is not None and spec.get("interactive") is True
    has_cluster = spec is not None and spec.get("cluster") is not None
    return ExecRequest(str(api_version), is_interactive, _cluster(document, text) if has_cluster else None)


def _name(value: object) -> str:
    """A name for a message; what is no text may be anything, and is not quoted."""
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


def _read(text: str) -> dict[str, object]:
    from keyferry._core.json import loads

    document: object = None
    try:
        document = loads(text)
    except DocumentError as error:
        problem = str(error)
    else:
        problem = "it is not a JSON object"
    # Raised out here on purpose: what was caught may hold the variable, which may have a proxy's password.
    if not isinstance(document, dict):
        raise ProvideError(f"{VARIABLE} cannot be read: {problem}")
    return document


def _cluster(document: dict[str, object], text: str) -> ClusterInfo:
    from keyferry._core.paths import format_path
    from keyferry.api.clientauthentication.v1 import read_exec_credential
    from keyferry.api.codec import Reader

    reader = Reader(lenient=True)
    # With its text: the plugin's own config keeps its numbers as they are written.
    credential = read_exec_credential({"spec": document["spec"]}, reader, text)
    if reader.problems or credential.cluster is None:
        shown = [f"{format_path(path)}: {problem.message}" for path, problem in reader.problems[:1]]
        raise ProvideError(f"{VARIABLE}: {''.join(shown) or 'spec.cluster is not an object'}")
    return credential.cluster


def _check(response: ExecResponse) -> ExecCredentialStatus:
    """Refuse what the client would refuse, or would use and fail with."""
    for name in ("token", "client_certificate_data", "client_key_data"):
        value = getattr(response, name)
        if not isinstance(value, str):
            raise ProvideError(f"response: {name} is {type(value).__name__}, expected str")
    if not response.token and not response.client_certificate_data:
        raise ProvideError("response: there is neither a token nor a client certificate")
    if bool(response.client_certificate_data) != bool(response.client_key_data):
        raise ProvideError("response: a client certificate needs its key, and a key its certificate")
    if any(not " " < char < "\x7f" for char in response.token):
        raise ProvideError("response: the token has characters that no HTTP header can carry")
    if response.client_certificate_data:
        _check_pem(response)
    return ExecCredentialStatus(
        response.token,
        response.client_certificate_data,
        response.client_key_data,
        _expiry(response.expires_at),
    )


def _check_pem(response: ExecResponse) -> None:
    if "-----BEGIN CERTIFICATE-----" not in response.client_certificate_data:
        raise ProvideError("response: client_certificate_data has no certificate in PEM")
    if "-----BEGIN" not in response.client_key_data or "PRIVATE KEY-----" not in response.client_key_data:
        raise ProvideError("response: client_key_data has no private key in PEM")


def _expiry(expires_at: float | None) -> int | None:
    if expires_at is None:
        return None
    if not isinstance(expires_at, (int, float)) or isinstance(expires_at, bool):
        raise ProvideError(
            f"response: expires_at is {type(expires_at).__name__}, expected seconds since 1970, such as time() + 600"
        )
    if not 0 <= expires_at <= _LAST_SECOND:
        raise ProvideError(
            "response: expires_at is not between the years 1970 and 9999, in seconds since 1970"
        )
    return int(expires_at) * _NANOSECONDS
