"""The secrets in a plugin's responses: finding them elsewhere, and hiding them."""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator

from keyferry._core.json import loads
from keyferry._core.secrets import MASK, printable, redact
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError

__all__ = ["LeakedFile", "Secrets", "list_files", "secrets_in", "shown_key"]

# Shorter texts appear in other texts by chance.
SHORTEST = 8
_SECRET_FIELDS = ("password", "token", "clientKeyData")
_LARGEST_FILE = 16 * 1024 * 1024
_MOST_FILES = 2000


# A registry: a host with a dot, a port or a star, optionally with a scheme before it and a path after it.
_REGISTRY = (
    r"(?:(?:https?|docker|oci)://)?(?:[\w*.-]*[.*][\w*.-]*|localhost|[\w-]+(?=:\d)|\[[0-9a-f:]+\])(?::\d+)?"
    r"(?:[/?][\w.*?/~-]*)?"
)
_LONGEST_KEY = 100


def shown_key(key: str) -> str:
    """Return a key of auth for output, masked unless it is a registry without user info.

    A plugin may return any text as a key, even its password.
    """
    return key if len(key) <= _LONGEST_KEY and re.fullmatch(_REGISTRY, key) else MASK


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
    return frozenset(text for text in _walk(document) if len(text) >= SHORTEST)


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
            if count > _MOST_FILES:
                return
            if stat.S_ISREG(status.st_mode):
                yield path, status


def find_leaks(folder: str, secrets: Secrets) -> Iterator[LeakedFile]:
    """Yield the files below a folder that contain a secret."""
    for path, status in list_files(folder):
        try:
            with open(path, "rb") as stream:
                data = stream.read(_LARGEST_FILE)
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
    return (raw, *(spelling for spelling in {encoded, safe} if len(spelling) >= SHORTEST))
