"""A cache of tokens in files that only the user can read, used if the user enables it."""

from __future__ import annotations

import os

from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError
from keyferry.sdk.files import read_private, write_private
from keyferry_plugins.openid.fields import number_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.openid.options import Options

__all__ = ["KeptTokens", "cache_path", "load", "save"]


class KeptTokens(Value):
    """A token, its expiry, and a refresh token; missing values are empty."""

    token: str = field(default="", repr=False)
    expires_at: float = 0.0
    refresh_token: str = field(default="", repr=False)


def cache_path(options: Options) -> str:
    """Return the file for these options; its name is a hash of everything that affects the token."""
    from hashlib import sha256

    parts: list[object] = [
        options.issuer,
        options.client_id,
        options.client_secret,
        sorted(options.scopes),
        options.use_access_token,
        sorted([list(pair) for pair in options.headers.items()]),
        sorted([list(pair) for pair in options.extra.items()]),
        options.redirect_url,
        options.grant,
        options.username,
        options.password,
        options.ca_data,
        options.is_insecure,
        options.is_compat,
    ]
    return os.path.join(options.cache_folder, sha256(dumps(parts).encode()).hexdigest())


def load(path: str) -> KeptTokens:
    """Return the tokens in a file; empty if it is missing, accessible to other users, or not a cache file."""
    data = read_private(path)
    document: object = None
    try:
        document = loads(data) if data else None
    except DocumentError:
        pass
    if not isinstance(document, dict):
        return KeptTokens()
    expires_at = number_of(document, "expires_at") or 0.0
    return KeptTokens(text_of(document, "id_token"), expires_at, text_of(document, "refresh_token"))


def save(path: str, kept: KeptTokens) -> bool:
    """Store tokens in a file that only the user can read; return False if that fails."""
    document = {
        "id_token": kept.token,
        "refresh_token": kept.refresh_token,
        "expires_at": int(kept.expires_at),
    }
    return write_private(path, dumps(document).encode())
