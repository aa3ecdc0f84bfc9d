"""Caches of tokens in files that only the user can read, shared by processes that take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from time import time

from keyferry._core.json import dumps, read_object
from keyferry.sdk import Deadline, tell
from keyferry.sdk.files import Lock, read_private, write_private
from keyferry_plugins.oauth.answers import Token, number_of, text_of


def digest_of(parts: object) -> str:
    """Return a digest of a JSON value: everything that determines a token."""
    return sha256(dumps(parts).encode("utf-8", "surrogateescape")).hexdigest()


def load_document(path: str) -> dict[str, object] | None:
    """Return the JSON object in a file; None if it is missing, accessible to other users, or holds anything else."""
    return read_object(read_private(path) or b"")


def save_document(path: str, document: Mapping[str, object]) -> bool:
    """Store a JSON object in a file that only the user can read; return False if that fails."""
    return write_private(path, dumps(dict(document)).encode())


def load_token(path: str, member: str = "access_token") -> Token | None:
    """Return the token in a file that save_token wrote, or None if there is none or others can access the file."""
    document = load_document(path) or {}
    value = text_of(document, member)
    if not value:
        return None
    return Token(
        value=value,
        expires_at=number_of(document, "expires_at"),
        refresh_token=text_of(document, "refresh_token"),
    )


def save_token(path: str, token: Token, member: str = "access_token") -> bool:
    """Store a token in a file that only the user can read, as its *member*; return False if that fails."""
    document = {
        member: token.value,
        "refresh_token": token.refresh_token,
        "expires_at": int(token.expires_at or 0),
    }
    return save_document(path, document)


def use_token_file(
    path: str,
    deadline: Deadline,
    obtain: Callable[[str], Token],
    *,
    margin_seconds: float,
    complaint: str,
    is_forced: bool = False,
    member: str = "access_token",
) -> Token:
    """Return the token in a file if it outlives the margin, or else the one that *obtain* returns, and store that.

    *obtain* gets the refresh token in the file, which may be empty. Processes take turns, so that a user logs in once;
    one that waited until *deadline* goes on. With *is_forced* a token in the file is not used. *complaint* tells the
    user that the new token cannot be stored.
    """
    with Lock(path, deadline):
        kept = load_token(path, member)
        if kept is not None and not is_forced and (kept.expires_at or 0) > time() + margin_seconds:
            return kept
        token = obtain(kept.refresh_token if kept is not None else "")
        if not save_token(path, token, member):
            tell(complaint)
    return token
