"""The secrets in a plugin's responses: finding them elsewhere, hiding them, and what can be shown of them."""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping

from keyferry._core import jwt_claims
from keyferry._core.clock import time_ns
from keyferry._core.json import loads
from keyferry._core.secrets import MASK, printable, redact
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError

__all__ = [
    "MIN_LENGTH",
    "LeakedFile",
    "Secrets",
    "describe",
    "expiry_of",
    "find_leaks",
    "list_files",
    "secrets_in",
    "shown_key",
    "skeleton",
]

# Shorter texts appear in other texts by chance.
MIN_LENGTH = 8
_SECRET_FIELDS = ("password", "token", "clientKeyData")
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_FILES = 2000
# A registry: a host with a dot, a port or a star, optionally with a scheme before it and a path after it.
_REGISTRY = (
    r"(?:(?:https?|docker|oci)://)?(?:[\w*.-]*[.*][\w*.-]*|localhost|[\w-]+(?=:\d)|\[[0-9a-f:]+\])(?::\d+)?"
    r"(?:[/?][\w.*?/~-]*)?"
)
_MAX_KEY_LENGTH = 100
_JWT = r"(?a:[\w-]{4,65536}\.[\w-]{4,65536}\.[\w-]*)"
_SHAPES = (
    ("hexadecimal", r"[0-9a-fA-F]+"),
    ("letters and digits", r"[0-9A-Za-z]+"),
    ("base64", r"[0-9A-Za-z+/]+={0,2}"),
    ("base64url", r"[0-9A-Za-z_-]+={0,2}"),
    ("printable ASCII", r"[ -~]+"),
)
# Lengths are rounded up to one of these, because a password's exact length helps to guess it.
_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
_SECOND = 1_000_000_000
_MAX_EXPIRY = 253402300799  # the end of the year 9999
# Words of the two protocols, which a skeleton keeps; only as whole strings, because a secret may contain them.
_WORDS = (
    r'"(?:CredentialProviderResponse|ExecCredential|apiVersion|kind|cacheKeyType|cacheDuration|auth|username|'
    r"password|Image|Registry|Global|status|token|clientCertificateData|clientKeyData|expirationTimestamp|"
    r"credentialprovider\.kubelet\.k8s\.io/v1(?:alpha1|beta1)?|client\.authentication\.k8s\.io/v1(?:beta1)?"
    r')"|([A-Za-z])|([0-9])|([^\x00-\x7f])'
)


def shown_key(key: str) -> str:
    """Return a key of auth for output, masked unless it is a registry without user info.

    A plugin may return any text as a key, even its password.
    """
    return key if len(key) <= _MAX_KEY_LENGTH and re.fullmatch(_REGISTRY, key) else MASK


class Secrets(Value):
    """Texts that must not appear anywhere except in a response."""

    texts: frozenset[str] = field(default=frozenset(), repr=False)

    def found_in(self, data: bytes) -> bool:
        """Return whether *data* contains one of them, or the base64 of one."""
        return any(needle in data for text in self.texts for needle in _spellings(text))

    def hide(self, text: str) -> str:
        """Return *text* with the secrets masked."""
        for secret in sorted(self.texts, key=len, reverse=True):
            for needle in _spellings(secret):
                text = text.replace(needle.decode("utf-8", "replace"), MASK)
        return printable(redact(text), keep="\t\n")


class LeakedFile(Value):
    """A file that contains a secret: its path, relative to its folder, and whether others may read it."""

    path: str
    is_open: bool


def secrets_in(stdout: bytes) -> frozenset[str]:
    """Return every secret of a response, in either protocol, and each pair as in an Authorization header."""
    try:
        document = loads(stdout)
    except DocumentError:
        document = _salvage(stdout)
    return frozenset(text for text in _walk(document) if len(text) >= MIN_LENGTH)


def list_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a folder with their status; at most 2000 entries are read."""
    count = 0
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            count += 1
            if count > _MAX_FILES:
                return
            if stat.S_ISREG(status.st_mode):
                yield path, status


def find_leaks(folder: str, secrets: Secrets) -> Iterator[LeakedFile]:
    """Yield the files below a folder that contain a secret."""
    for path, status in list_files(folder):
        try:
            with open(path, "rb") as stream:
                data = stream.read(_MAX_FILE_BYTES)
        except OSError:
            continue
        if secrets.found_in(data):
            is_open = bool(status.st_mode & (stat.S_IRGRP | stat.S_IROTH))
            yield LeakedFile(path=os.path.relpath(path, folder), is_open=is_open)


def _salvage(stdout: bytes) -> object:
    """Return the document between the first and the last brace of a response with other text around it."""
    start, end = stdout.find(b"{"), stdout.rfind(b"}")
    try:
        return loads(stdout[start : end + 1]) if 0 <= start < end else None
    except DocumentError:
        return None


def _walk(document: object) -> Iterator[str]:
    waiting: list[tuple[object, str]] = [(document, "")]
    while waiting:
        value, name = waiting.pop()
        if isinstance(value, dict):
            username, password = value.get("username"), value.get("password")
            if isinstance(username, str) and isinstance(password, str) and password:
                yield f"{username}:{password}"
            waiting += [(item, key) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, name) for item in value]
        elif isinstance(value, str) and name in _SECRET_FIELDS:
            yield value


def _spellings(text: str) -> Iterable[bytes]:
    raw = text.encode("utf-8", "replace")
    # Without the end, which depends on the text that follows; standard and URL-safe base64.
    encoded = b64encode(raw).rstrip(b"=")[: len(raw) * 4 // 3]
    safe = urlsafe_b64encode(raw).rstrip(b"=")[: len(raw) * 4 // 3]
    return (raw, *(spelling for spelling in {encoded, safe} if len(spelling) >= MIN_LENGTH))


def expiry_of(text: str) -> int | None:
    """Return the expiry of a JSON web token in Unix nanoseconds; None for other texts and tokens without expiry."""
    claims = _read_claims(text)
    return None if claims is None else _expiry(claims)


def _read_claims(text: str) -> Mapping[str, object] | None:
    """Return the claims of a JSON web token without verifying it; None for any other text."""
    if not re.fullmatch(_JWT, text):
        return None
    try:
        jwt_claims.read_header(text)
        return jwt_claims.read_claims(text)
    except jwt_claims.JwtError:
        return None


def _expiry(claims: Mapping[str, object]) -> int | None:
    expiry = claims.get("exp")
    if isinstance(expiry, int | float) and not isinstance(expiry, bool) and 0 < expiry < _MAX_EXPIRY:
        return int(expiry * _SECOND)
    return None


def describe(secret: str, now_ns: int | None = None) -> str:
    """Return a secret's form, such as ``JWT, up to 1024 characters, ends in 3600 s``."""
    if not secret:
        return "empty"
    size = next((f"up to {length}" for length in _LENGTHS if len(secret) <= length), f"over {_LENGTHS[-1]}")
    claims = _read_claims(secret)
    if claims is None:
        kind = next((name for name, shape in _SHAPES if re.fullmatch(shape, secret)), "other text")
        return f"{kind}, {size} characters"
    end = _expiry(claims)
    if end is None:
        return f"JWT, {size} characters, no end"
    left = (end - (time_ns() if now_ns is None else now_ns)) // _SECOND
    return f"JWT, {size} characters, {f'ends in {left} s' if left >= 0 else f'ended {-left} s ago'}"


def skeleton(text: str) -> str:
    """Return *text* with every letter as ``x`` and every digit as ``0``, except the protocols' words."""

    def keep(match: re.Match[str]) -> str:
        if match[1]:
            return "x"
        return "0" if match[2] else "\ufffd" if match[3] else match[0]

    return re.sub(_WORDS, keep, text)
