"""The hashes of image names, which are the names of the kubelet's files, and the short form of credential hashes."""

from __future__ import annotations

from hashlib import sha256

__all__ = ["file_name", "shorten"]

PREFIX = "sha256-"
_SHOWN = 8


def file_name(key: str) -> str:
    """Return the name of the file for an image, or for a runtime's reference."""
    return PREFIX + sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def shorten(credential_hash: str) -> str:
    """Return the beginning of a hash: enough to distinguish two, too little to guess the password from."""
    if len(credential_hash) <= _SHOWN:
        return credential_hash and "..."
    return credential_hash[:_SHOWN] + "..."
