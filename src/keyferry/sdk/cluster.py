"""Exec plugins of kubeconfigs: from the client's request to a token or certificate, and the executable for it."""

from __future__ import annotations

import os
from collections.abc import Callable

from keyferry._core.json import decode_utf8, loads
from keyferry._core.paths import format_path
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication.v1 import (
    GROUP,
    KIND,
    ClusterInfo,
    ExecCredential,
    ExecCredentialStatus,
    encode_exec_credential,
)
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.stdio import deliver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

VARIABLE = "KUBERNETES_EXEC_INFO"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"
_VERSIONS = (V1, V1BETA1)
_NANOSECONDS = 1_000_000_000
# The limit of RFC 3339, whose years have four digits.
_MAX_SECOND = 253_402_300_799


class ExecRequest(Value):
    """The client's request: whether the user can be prompted, and the cluster, if the kubeconfig provides it.

    *api_version* is the version of the response. *is_informed* is False without KUBERNETES_EXEC_INFO: then a person or
    a script has started the plugin.
    """

    api_version: str = V1BETA1
    interactive: bool = False
    cluster: ClusterInfo | None = None
    is_informed: bool = True


class ExecResponse(Value):
    """A token, or a certificate and key as PEM, or both; *expires_at* is in Unix seconds, None if unknown.

    A fraction of a second is cut off, as in Go's plugins.
    """

    token: str = field(default="", repr=False)
    expires_at: float | None = None
    client_certificate_data: str = ""
    client_key_data: str = field(default="", repr=False)


ProvideCluster = Callable[[ExecRequest], ExecResponse]


def serve_cluster(provide: ProvideCluster) -> Never:
    """Run as an exec plugin of a kubeconfig: read KUBERNETES_EXEC_INFO, call *provide*, write the response, exit.

    If *provide* raises ProvideError or any other exception, a message is written to standard error, nothing to standard
    output, and the exit status is 1.
    """
    deliver(lambda: respond_cluster(provide, os.environ.get(VARIABLE, "")))


def respond_cluster(provide: ProvideCluster, exec_info: str) -> bytes:
    """Return the response to *exec_info* as bytes; raise ProvideError, and any exception of *provide*."""
    request = read_exec_request(exec_info)
    response = provide(request)
    if not isinstance(response, ExecResponse):
        raise ProvideError(f"the plugin's function returned {type(response).__name__}, not an ExecResponse")
    return encode_exec_credential(_check(response), request.api_version)


def read_exec_request(exec_info: str) -> ExecRequest:
    """Parse KUBERNETES_EXEC_INFO; without it, or without a version in it, the version is v1beta1, as in client-go."""
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
    return ExecRequest(
        api_version=str(api_version),
        interactive=is_interactive,
        cluster=_cluster(document, text) if has_cluster else None,
    )


def _name(value: object) -> str:
    """Return a value of a message; only strings are quoted, others may hold anything."""
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


def _read(text: str) -> dict[str, object]:
    document: object = None
    try:
        document = loads(text)
    except DocumentError as error:
        problem = str(error)
    else:
        problem = "it is not a JSON object"
    # Raised outside the except block: the caught error may hold the variable, which may contain a proxy's password.
    if not isinstance(document, dict):
        raise ProvideError(f"{VARIABLE} cannot be read: {problem}")
    return document


def _cluster(document: dict[str, object], text: str) -> ClusterInfo:
    # The text is needed because numbers in the plugin's own config keep their spelling.
    reader = Reader(lenient=True, text=text)
    cluster = ExecCredential.from_document({"spec": document["spec"]}, reader).spec.cluster
    if reader.problems or cluster is None:
        shown = [f"{format_path(path)}: {problem.message}" for path, problem in reader.problems[:1]]
        raise ProvideError(f"{VARIABLE}: {''.join(shown) or 'spec.cluster is not an object'}")
    return cluster


def _check(response: ExecResponse) -> ExecCredentialStatus:
    """Raise ProvideError for a response that the client would reject, or would use and fail with."""
    for name in ("token", "client_certificate_data", "client_key_data"):
        value = getattr(response, name)
        if not isinstance(value, str):
            raise ProvideError(f"response: {name} is {type(value).__name__}, expected str")
    if not response.token and not response.client_certificate_data:
        raise ProvideError("response: there is neither a token nor a client certificate")
    if bool(response.client_certificate_data) != bool(response.client_key_data):
        raise ProvideError(
            "response: there is a client certificate without a key, or a key without a certificate"
        )
    if any(not " " < char < "\x7f" for char in response.token):
        raise ProvideError("response: the token has characters that are not allowed in an HTTP header")
    if response.client_certificate_data:
        _check_pem(response)
    return ExecCredentialStatus(
        token=response.token,
        client_certificate_data=response.client_certificate_data,
        client_key_data=response.client_key_data,
        expiration_ns=_expiry(response.expires_at),
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
    if not 0 <= expires_at <= _MAX_SECOND:
        raise ProvideError(
            "response: expires_at is not between the years 1970 and 9999, in seconds since 1970"
        )
    return int(expires_at) * _NANOSECONDS
