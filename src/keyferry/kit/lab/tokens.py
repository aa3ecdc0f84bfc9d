"""Properties of a secret that can be shown: its form, and the expiry of a JSON web token."""

from __future__ import annotations

import re

from keyferry._core import jwt_claims
from keyferry._core.clock import time_ns
from keyferry._core.values import Value

__all__ = ["describe", "expiry_of", "skeleton"]

_JWT = re.compile(r"[\w-]{4,65536}\.[\w-]{4,65536}\.[\w-]*", re.ASCII)
_SHAPES = (
    ("hexadecimal", re.compile(r"[0-9a-fA-F]+")),
    ("letters and digits", re.compile(r"[0-9A-Za-z]+")),
    ("base64", re.compile(r"[0-9A-Za-z+/]+={0,2}")),
    ("base64url", re.compile(r"[0-9A-Za-z_-]+={0,2}")),
    ("printable ASCII", re.compile(r"[ -~]+")),
)
# Lengths are rounded up to one of these, because a password's exact length helps to guess it.
_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
_SECOND = 1_000_000_000
_LATEST = 253402300799  # the end of the year 9999
# Words of the two protocols, which a skeleton keeps; only as whole strings, because a secret may contain them.
_WORDS = re.compile(
    r'"(?:CredentialProviderResponse|ExecCredential|apiVersion|kind|cacheKeyType|cacheDuration|auth|username|'
    r"password|Image|Registry|Global|status|token|clientCertificateData|clientKeyData|expirationTimestamp|"
    r"credentialprovider\.kubelet\.k8s\.io/v1(?:alpha1|beta1)?|client\.authentication\.k8s\.io/v1(?:beta1)?"
    r')"|([A-Za-z])|([0-9])|([^\x00-\x7f])'
)


class Claims(Value):
    """The expiry of a JSON web token in Unix nanoseconds; None if it has none."""

    expires_ns: int | None = None


def read_claims(text: str) -> Claims | None:
    """Return the claims of a JSON web token without verifying it; None for any other text."""
    if not _JWT.fullmatch(text):
        return None
    try:
        jwt_claims.read_header(text)
        expiry = jwt_claims.read_claims(text).get("exp")
    except jwt_claims.JwtError:
        return None
    if isinstance(expiry, int | float) and not isinstance(expiry, bool) and 0 < expiry < _LATEST:
        return Claims(expires_ns=int(expiry * _SECOND))
    return Claims()


def expiry_of(text: str) -> int | None:
    """Return the expiry of a JSON web token in Unix nanoseconds; None for other texts and tokens without expiry."""
    claims = read_claims(text)
    return claims.expires_ns if claims is not None else None


def describe(secret: str, now_ns: int | None = None) -> str:
    """Return a secret's form, such as ``JWT, up to 1024 characters, ends in 3600 s``."""
    if not secret:
        return "empty"
    size = next((f"up to {length}" for length in _LENGTHS if len(secret) <= length), f"over {_LENGTHS[-1]}")
    claims = read_claims(secret)
    if claims is None:
        kind = next((name for name, shape in _SHAPES if shape.fullmatch(secret)), "other text")
        return f"{kind}, {size} characters"
    if claims.expires_ns is None:
        return f"JWT, {size} characters, no end"
    left = (claims.expires_ns - (time_ns() if now_ns is None else now_ns)) // _SECOND
    return f"JWT, {size} characters, {f'ends in {left}' if left >= 0 else f'ended {-left}'} s" + (
        "" if left >= 0 else " ago"
    )


def skeleton(text: str) -> str:
    """Return *text* with every letter as ``x`` and every digit as ``0``, except the protocols' words."""

    def keep(match: re.Match[str]) -> str:
        if match[1]:
            return "x"
        return "0" if match[2] else "\ufffd" if match[3] else match[0]

    return _WORDS.sub(keep, text)
