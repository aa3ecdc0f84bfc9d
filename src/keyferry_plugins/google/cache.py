"""The cluster plugin's token cache: the same file and format as gke-gcloud-auth-plugin's."""

from __future__ import annotations

import os

from keyferry._core.json import dumps, loads
from keyferry._core.values import Value
from keyferry.api.meta import format_time
from keyferry.errors import DocumentError
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded, read_private, write_private
from keyferry_plugins.google.answers import expiry
from keyferry_plugins.google.calls import Token
from keyferry_plugins.google.kubeconfig import current_context, default_kubeconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry_plugins.google.calls import Calls
    from keyferry_plugins.google.gcloud import GcloudCall

__all__ = ["CacheKey", "cache_key", "cache_path", "format_indented", "read_cache", "write_cache"]

_FILE = "gke_gcloud_auth_plugin_cache"
_STRICT = "GKE_AUTH_PLUGIN_STRICT_CACHE_INVALIDATION"
_NANOSECONDS = 1_000_000_000
# A token that expires before the request arrives is useless.
_MARGIN_SECONDS = 10


class CacheKey(Value):
    """What a cached token is valid for: a context, arguments of gcloud, and a configuration."""

    context: str
    extra_args: str
    gcloud_config: Mapping[str, str] | None = None


def cache_path(calls: Calls) -> str:
    """Return the path of the cache file, beside the default kubeconfig."""
    return os.path.join(os.path.dirname(default_kubeconfig(calls.environ)), _FILE)


def cache_key(call: GcloudCall, calls: Calls) -> CacheKey | None:
    """Return the key of a token requested now; None, which disables the cache, if the kubeconfig is unreadable."""
    context = current_context(calls.environ)
    if context is None:
        return None
    config = None if call.is_edge else _describe_config(calls)
    return CacheKey(context, call.extra_text, config)


def _describe_config(calls: Calls) -> dict[str, str] | None:
    """Return folder, name and digest of gcloud's active configuration; None if disabled or unreadable."""
    if calls.setting(_STRICT) != "true":
        return None
    from hashlib import sha256

    from keyferry_plugins.google.adc import gcloud_folder

    folder = calls.setting("CLOUDSDK_CONFIG") or gcloud_folder(calls)
    try:
        name = calls.setting("CLOUDSDK_ACTIVE_CONFIG_NAME") or _active_name(folder)
        data = read_bounded(
            os.path.join(folder, "configurations", f"config_{name}"), "gcloud's configuration"
        )
    except ProvideError:
        return None
    return {"config_dir": folder, "active_config": name, "config_hash": sha256(data).hexdigest()}


def _active_name(folder: str) -> str:
    data = read_bounded(os.path.join(folder, "active_config"), "gcloud's active configuration")
    return data.decode("utf-8", "replace").strip()


def read_cache(path: str, key: CacheKey, now: float) -> Token | None:
    """Return the token in the cache file, or None unless it is for *key* and remains valid for a while."""
    data = read_private(path)
    if data is None:
        return None
    document: object = None
    try:
        document = loads(data)
    except DocumentError:
        pass
    if not isinstance(document, dict) or not _is_for(document, key):
        return None
    token, ends = document.get("access_token"), expiry(document.get("token_expiry"))
    if not isinstance(token, str) or not token or ends is None or ends - _MARGIN_SECONDS <= now:
        return None
    return Token(token, ends, "gcloud")


def _is_for(document: Mapping[str, object], key: CacheKey) -> bool:
    if document.get("current_context") != key.context or document.get("extra_args") != key.extra_args:
        return False
    return key.gcloud_config is None or document.get("gcloud_config") == dict(key.gcloud_config)


def write_cache(path: str, key: CacheKey, token: Token) -> bool:
    """Store a token; return False if that fails, which is not an error."""
    if token.expires_at is None:
        return False
    document: dict[str, object] = {
        "current_context": key.context,
        "access_token": token.value,
        # Whole seconds, rounded down so that the entry never outlives the token.
        "token_expiry": format_time(int(token.expires_at) * _NANOSECONDS),
        "extra_args": key.extra_args,
    }
    if key.gcloud_config is not None:
        document["gcloud_config"] = dict(key.gcloud_config)
    return write_private(path, format_indented(document).encode())


def format_indented(value: object, depth: int = 0) -> str:
    """Return JSON with one member per line, indented by four spaces, as Go's MarshalIndent formats it."""
    if not isinstance(value, dict) or not value:
        return dumps(value)
    blanks = "    " * (depth + 1)
    lines = [f"{blanks}{dumps(name)}: {format_indented(each, depth + 1)}" for name, each in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{blanks[4:]}}}"
