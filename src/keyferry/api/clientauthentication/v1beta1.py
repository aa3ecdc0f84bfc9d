"""``client.authentication.k8s.io/v1beta1``: the same fields as v1."""

from __future__ import annotations

from keyferry.api.clientauthentication import v1
from keyferry.api.clientauthentication.v1 import (
    ClusterInfo,
    ExecCredential,
    ExecCredentialStatus,
    read_exec_credential,
)

__all__ = [
    "API_VERSION",
    "ClusterInfo",
    "ExecCredential",
    "ExecCredentialStatus",
    "encode_exec_info",
    "read_exec_credential",
]

API_VERSION = f"{v1.GROUP}/v1beta1"


def encode_exec_info(cluster: ClusterInfo | None, *, interactive: bool) -> str:
    """Return the text of KUBERNETES_EXEC_INFO for a v1beta1 plugin."""
    return v1.encode_exec_info(API_VERSION, cluster, interactive=interactive)
