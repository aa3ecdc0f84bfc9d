"""A cache of a user's tokens, in a folder that the user chooses."""

from __future__ import annotations

import os
from time import time

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.tokens import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import Deadline

__all__ = ["choose_folder", "entry_path", "remove_entries", "use_cache"]

_PREFIX = "keyferry-aks-"
# Enough for the request that the token is for.
_MARGIN_SECONDS = 60.0


def choose_folder(given: str, environ: Mapping[str, str], *, compat: bool) -> str:
    """Return the folder for tokens: the one given, upstream's own with *compat*, or else an empty string."""
    if given:
        return os.path.expanduser(given)
    if not compat:
        return ""
    return environ.get("KUBECACHEDIR") or os.path.expanduser("~/.kube/cache/kubelogin")


def entry_path(folder: str, *parts: str) -> str:
    """Return the path of a cache entry; *parts* are everything that determines its token."""
    from hashlib import sha256

    from keyferry._core.json import dumps

    return os.path.join(folder, f"{_PREFIX}{sha256(dumps(list(parts)).encode()).hexdigest()[:32]}.json")


def use_cache(
    path: str, deadline: Deadline, log_in: Callable[[], Token], refresh: Callable[[str], Token]
) -> Token:
    """Return the cached token if it is still valid, or else a new one by refresh token or login."""
    from keyferry.sdk.files import Lock

    # Serialised: two logins at once would prompt the user twice.
    with Lock(path, deadline):
        kept = _load(path)
        if kept is not None and (kept.expires_at or 0) > time() + _MARGIN_SECONDS:
            return kept
        token = _refreshed(kept, refresh) or log_in()
        _save(path, token)
    return token


def remove_entries(folder: str) -> tuple[int, int]:
    """Remove the entries of this plugin and upstream; return how many were removed and how many files remain.

    Other files stay, and so does a folder that contains some, in case the path is mistyped.
    """
    removed = left = 0
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise ProvideError(
            f"the cache folder {folder!r} cannot be read: {str(error.strerror).lower()}"
        ) from None
    for name in names:
        is_ours = name.startswith(_PREFIX) or name == "auth.json"
        removed += is_ours and _remove(os.path.join(folder, name))
        left += not is_ours
    if not left:
        try:
            os.rmdir(folder)
        except OSError:
            pass
    return removed, left


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError as error:
        raise ProvideError(f"{path!r} cannot be removed: {str(error.strerror).lower()}") from None
    return True


def _refreshed(kept: Token | None, refresh: Callable[[str], Token]) -> Token | None:
    from keyferry._core.values import replace
    from keyferry_plugins.azure.entra import EntraError

    if kept is None or not kept.refresh_token:
        return None
    try:
        token = refresh(kept.refresh_token)
    except EntraError as error:
        # Only a rejection of this refresh token leads to a new login; a server error does not.
        if error.error not in ("invalid_grant", "interaction_required"):
            raise
        return None
    return token if token.refresh_token else replace(token, refresh_token=kept.refresh_token)


def _load(path: str) -> Token | None:
    from keyferry._core.json import loads
    from keyferry.errors import DocumentError
    from keyferry.sdk.files import read_private
    from keyferry_plugins.azure.tokens import read_instant, text_of

    data = read_private(path)
    document: object = None
    try:
        document = loads(data or b"")
    except DocumentError:
        pass
    if not isinstance(document, dict) or not text_of(document, "access_token"):
        return None
    return Token(
        text_of(document, "access_token"),
        read_instant(document.get("expires_at")),
        text_of(document, "refresh_token"),
    )


def _save(path: str, token: Token) -> None:
    from keyferry._core.json import dumps
    from keyferry.sdk import tell
    from keyferry.sdk.files import write_private

    document = {
        "access_token": token.access_token,
        "expires_at": int(token.expires_at or 0),
        "refresh_token": token.refresh_token,
    }
    if not write_private(path, dumps(document).encode()):
        tell(f"the token cannot be cached in {os.path.dirname(path)!r}; the next run logs in again")
