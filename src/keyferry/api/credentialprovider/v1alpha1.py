"""``credentialprovider.kubelet.k8s.io/v1alpha1``: v1 without service accounts."""

from __future__ import annotations

from keyferry.api.credentialprovider import v1
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
    read_response,
)

__all__ = [
    "API_VERSION",
    "AuthConfig",
    "CredentialProviderRequest",
    "CredentialProviderResponse",
    "encode_request",
    "read_response",
]

API_VERSION = f"{v1.GROUP}/v1alpha1"


def encode_request(request: CredentialProviderRequest) -> bytes:
    """Return the bytes the kubelet writes to a v1alpha1 plugin, without the fields of a service account."""
    return v1.encode_request(request, API_VERSION)
