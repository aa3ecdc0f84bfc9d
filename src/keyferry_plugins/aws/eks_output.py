"""Output of keyferry-eks that the SDK does not write: the bare token, and the formats of the tools it replaces."""

from __future__ import annotations

import os

from keyferry.api.meta import format_time
from keyferry.sdk import tell
from keyferry.sdk.cluster import V1BETA1, VARIABLE, ExecRequest, read_exec_request, respond_cluster
from keyferry.sdk.stdio import program_name
from keyferry_plugins.aws.eks_options import CLI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import ExecResponse
    from keyferry_plugins.aws.eks_options import Options

__all__ = ["choose_version", "write_as_upstream"]

_GROUP = "client.authentication.k8s.io"
_NANOSECONDS = 1_000_000_000


def write_as_upstream(
    options: Options, make: Callable[[ExecRequest], ExecResponse], variables: Mapping[str, str]
) -> bytes:
    """Return the bare token, or an ExecCredential in the version that the tool would choose."""
    exec_info = variables.get(VARIABLE, "")
    if not options.is_compat:
        if not options.is_token_only:
            return respond_cluster(make, exec_info)
        return f"{make(read_exec_request(exec_info)).token}\n".encode()
    version, message = choose_version(exec_info, options.tool)
    if message:
        tell(f"{program_name()}: {message}")
    response = make(ExecRequest(version, _may_ask()))
    if options.is_token_only:
        return f"{response.token}\n".encode()
    return _encode(response, version)


def choose_version(exec_info: str, tool: str) -> tuple[str, str]:
    """Return the apiVersion that *tool* responds with and its warning; the tools accept any KUBERNETES_EXEC_INFO."""
    from keyferry._core.json import loads

    document: object = None
    try:
        document = loads(exec_info)
    except Exception:  # noqa: BLE001, S110 - the tools ignore it
        pass
    if not isinstance(document, dict):
        message = f"{VARIABLE} is not JSON: answering in {V1BETA1}" if exec_info and tool == CLI else ""
        return V1BETA1, message
    found = document.get("apiVersion")
    version = found if isinstance(found, str) else ""
    if tool != CLI:
        return version, ""
    if version in {f"{_GROUP}/v1", V1BETA1}:
        return version, ""
    if version == f"{_GROUP}/v1alpha1":
        return version, f"{version} is deprecated: set apiVersion in the kubeconfig's exec entry to {V1BETA1}"
    return V1BETA1, f"{VARIABLE} has an apiVersion that is not known: answering in {V1BETA1}"


def _may_ask() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _encode(response: ExecResponse, version: str) -> bytes:
    from keyferry._core.json import dumps

    expiry = format_time(int(response.expires_at or 0) * _NANOSECONDS)
    document = {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {},
        "status": {"expirationTimestamp": expiry, "token": response.token},
    }
    return f"{dumps(document)}\n".encode()
