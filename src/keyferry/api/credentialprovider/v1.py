"""``credentialprovider.kubelet.k8s.io/v1``: requests to and responses from image credential provider plugins.

Older versions have requests without service accounts, and the same responses.
"""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import dumps
from keyferry.api.wire import WireValue, duration, map_of, object_of, text, wire

__all__ = [
    "API_VERSION",
    "API_VERSIONS",
    "AuthConfig",
    "CredentialProviderRequest",
    "CredentialProviderResponse",
    "encode_request",
    "encode_response",
]

GROUP = "credentialprovider.kubelet.k8s.io"
API_VERSION = f"{GROUP}/v1"
_OLD_VERSIONS = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")
API_VERSIONS = (API_VERSION, *_OLD_VERSIONS)


class AuthConfig(WireValue):
    """A user name and a password for one key of a response."""

    username: str = wire("username", text, always=True, default="")
    password: str = wire("password", text, always=True, default="", repr=False)


class CredentialProviderRequest(WireValue):
    """A request for credentials for *image*, on behalf of a service account if one is given."""

    image: str = wire("image", text, always=True)
    service_account_token: str = wire(
        "serviceAccountToken", text, absent_from=_OLD_VERSIONS, default="", repr=False
    )
    service_account_annotations: Mapping[str, str] | None = wire(
        "serviceAccountAnnotations", map_of(text), absent_from=_OLD_VERSIONS, default=None
    )


class CredentialProviderResponse(WireValue):
    """A response: credentials by auth key, and for which images and how long they are cached.

    ``cache_key_type`` can be any text, as in Kubernetes: the caller refuses an unknown one.
    """

    cache_key_type: str = wire("cacheKeyType", text, always=True, default="")
    cache_duration_ns: int | None = wire("cacheDuration", duration, default=None)
    auth: Mapping[str, AuthConfig] | None = wire("auth", map_of(object_of(AuthConfig)), default=None)


def encode_request(request: CredentialProviderRequest, api_version: str = API_VERSION) -> bytes:
    """Return the bytes the kubelet writes to a plugin of *api_version*: one JSON document and a newline."""
    return _encode("CredentialProviderRequest", request, api_version)


def encode_response(response: CredentialProviderResponse, api_version: str = API_VERSION) -> bytes:
    """Return the bytes a plugin of *api_version* writes: one JSON document on one line, without absent fields."""
    return _encode("CredentialProviderResponse", response, api_version)


def _encode(kind: str, value: WireValue, api_version: str) -> bytes:
    document = {"kind": kind, "apiVersion": api_version, **value.to_document(api_version)}
    return (dumps(document) + "\n").encode()
