"""The credentials in a provider's answer, by auth key."""

from __future__ import annotations

from keyferry.images.credential import Source, SourceKind
from keyferry.images.keyring import EMPTY, Keyring
from keyferry.images.provider.provision import Provision

__all__ = ["keyring_of"]

# The place of the keyring, beside the fields of an answer.
_KEPT_AS = "keyring"


def keyring_of(provision: Provision) -> Keyring:
    """Return the credentials of an answer; the keyring is built once for all images with this answer."""
    kept: Keyring | None = provision.__dict__.get(_KEPT_AS)
    if kept is not None or not provision.auth:
        return kept or EMPTY
    source = Source(SourceKind.PROVIDER, provision.provider, None, provision.account)
    keyring = Keyring()
    keyring.add(source, [(key, each.username, each.password, "") for key, each in provision.auth.items()])
    provision.__dict__[_KEPT_AS] = keyring
    return keyring
