"""``kubelet.config.k8s.io/v1beta1``: the credential provider config before service account tokens."""

from __future__ import annotations

from keyferry.api.codec import Reader
from keyferry.api.kubeletconfig import v1
from keyferry.api.kubeletconfig.v1 import CredentialProviderConfig

__all__ = ["API_VERSION", "CredentialProviderConfig", "read_config"]

API_VERSION = f"{v1.GROUP}/v1beta1"


def read_config(document: object, reader: Reader) -> CredentialProviderConfig:
    """Return the v1beta1 config in *document* as a v1 object."""
    return v1.read_config(document, reader, token_attributes=False)
