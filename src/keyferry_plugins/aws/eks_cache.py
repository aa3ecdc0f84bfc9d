"""A cache of expiring credentials, in a file that only the user can read."""

from __future__ import annotations

import hashlib
import os

from keyferry.sdk import Deadline
from keyferry.sdk.files import Lock, read_private, write_private
from keyferry_plugins.aws.credentials import Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.eks_options import Options
    from keyferry_plugins.aws.environment import Environment

__all__ = ["CredentialCache"]

_KIND = "keyferry-eks credentials"
_MARGIN_SECONDS = 300
# Beyond any expiry, and within what a float holds.
_LATEST = 1e12
_LOCK_SECONDS = 1.0
_MEMBERS = ("access_key_id", "secret_access_key", "session_token", "expires_at", "source")
# Variables that do not affect the identity; any other variable that begins with AWS_ may.
_IRRELEVANT = ("AWS_IAM_AUTHENTICATOR_CACHE_FILE", "AWS_PAGER", "AWS_DEFAULT_OUTPUT")


class CredentialCache:
    """The cached credentials for one set of options and environment; errors of the file disable the cache."""

    def __init__(self, environment: Environment, options: Options) -> None:
        self._path = environment.variable("AWS_IAM_AUTHENTICATOR_CACHE_FILE") or os.path.join(
            environment.home, ".kube", "cache", "keyferry-eks", "credentials.json"
        )
        self._key = _key(environment, options)
        self._now = environment.now

    def read(self) -> Credentials | None:
        """Return the cached credentials, or None unless they remain valid for a while."""
        entry = (self._entries() or {}).get(self._key)
        if not isinstance(entry, dict) or set(entry) != set(_MEMBERS):
            return None
        expires_at = entry["expires_at"]
        texts = [entry[name] for name in _MEMBERS if name != "expires_at"]
        if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
            return None
        if not 0 <= expires_at <= _LATEST:
            return None
        if not all(isinstance(text, str) for text in texts) or expires_at - self._now() < _MARGIN_SECONDS:
            return None
        key, secret, token, source = texts
        return Credentials(key, secret, token, float(expires_at), source)

    def write(self, credentials: Credentials) -> None:
        """Store *credentials* if they expire, and drop the entries that have expired."""
        if credentials.expires_at is None:
            return
        from keyferry._core.json import dumps

        with Lock(self._path, Deadline(_LOCK_SECONDS)) as is_held:
            entries = self._entries()
            if not is_held or entries is None:
                return
            alive = {key: entry for key, entry in entries.items() if _is_alive(entry, self._now())}
            alive[self._key] = {name: getattr(credentials, name) for name in _MEMBERS}
            write_private(self._path, dumps({"kind": _KIND, "entries": alive}).encode())

    def _entries(self) -> dict[str, object] | None:
        """Return all entries; None if the file must not be written: another tool's, or accessible to other users."""
        if not os.path.lexists(self._path):
            return {}
        from keyferry._core.json import loads

        document: object = None
        try:
            document = loads(read_private(self._path) or b"")
        except Exception:  # noqa: BLE001, S110 - a cache that cannot be read only costs time
            pass
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            return None
        entries = document.get("entries")
        return entries if isinstance(entries, dict) else None


def _is_alive(entry: object, now: float) -> bool:
    expires_at = entry.get("expires_at") if isinstance(entry, dict) else None
    return isinstance(expires_at, int | float) and expires_at > now


def _key(environment: Environment, options: Options) -> str:
    """Return a digest of everything that selects the identity, so that identities which share a file stay apart."""
    from keyferry._core.json import dumps

    variables = sorted(
        (name, value)
        for name, value in environment.variables.items()
        if name.startswith("AWS_") and name not in _IRRELEVANT
    )
    told = (
        options.cluster,
        options.tool,
        environment.profile_name,
        options.role_arn,
        options.external_id,
        options.session_name,
        str(options.forwards_session_name),
        environment.find_region(),
        environment.home,
    )
    files = [[path, _stamp(path)] for path in environment.files]
    text = dumps({"told": list(told), "files": files, "variables": [list(pair) for pair in variables]})
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _stamp(path: str) -> str:
    """Return a text that changes when the file is edited."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns}/{status.st_size}/{status.st_ino}"
