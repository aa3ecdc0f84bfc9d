"""The cluster plugin's token cache: the same file and format as gke-gcloud-auth-plugin's.

The key of an entry has the current context of the kubeconfigs. A YAML parser would slow down the start of every kubectl
command, and the context is one line of the outermost mapping. Any other form counts as unreadable, which only disables
the cache.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256

from keyferry._core.json import dumps, read_object
from keyferry._core.values import Value
from keyferry.api.meta import format_time
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded, write_private
from keyferry_plugins.google.adc import gcloud_folder
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.gcloud import GcloudCall
from keyferry_plugins.oauth.answers import Token, read_time, text_of
from keyferry_plugins.oauth.store import load_document

_FILE = "gke_gcloud_auth_plugin_cache"
_STRICT = "GKE_AUTH_PLUGIN_STRICT_CACHE_INVALIDATION"
_NANOSECONDS = 1_000_000_000
# A token that expires before the request arrives is useless.
_MARGIN_SECONDS = 10
_KEY = "current-context"
_KEY_SPELLINGS = (_KEY, f'"{_KEY}"', f"'{_KEY}'")
# The characters that begin a value other than plain text: anchors, aliases, tags, blocks, collections and so
# on.
_INDICATORS = frozenset("&*!|>{[]}%@`,?#")


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
    return CacheKey(context=context, extra_args=call.extra_text, gcloud_config=config)


def _describe_config(calls: Calls) -> dict[str, str] | None:
    """Return folder, name and digest of gcloud's active configuration; None if disabled or unreadable."""
    if calls.setting(_STRICT) != "true":
        return None
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
    document = load_document(path)
    if document is None or not _is_for(document, key):
        return None
    value, expires_at = text_of(document, "access_token"), read_time(document.get("token_expiry"))
    if not value or expires_at is None or expires_at - _MARGIN_SECONDS <= now:
        return None
    return Token(value=value, expires_at=expires_at, origin="gcloud")


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


def default_kubeconfig(environ: Mapping[str, str]) -> str:
    """Return the kubeconfig that kubectl would write to: the first that exists, or the last of the list."""
    named = _named(environ)
    return next((path for path in named if os.path.exists(path)), named[-1])


def _named(environ: Mapping[str, str]) -> list[str]:
    paths = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    home = environ.get("HOME") or os.path.expanduser("~")
    return paths or [os.path.join(home, ".kube", "config")]


def current_context(environ: Mapping[str, str]) -> str | None:
    """Return the current context of the merged kubeconfigs, possibly empty; None if one of them cannot be read."""
    found = ""
    for path in _named(environ):
        context = _read(path) if os.path.exists(path) else ""
        if context is None:
            return None
        found = found or context
    return found


def _read(path: str) -> str | None:
    try:
        text = read_bounded(path, "the kubeconfig").decode().removeprefix("\ufeff")
    except (ProvideError, UnicodeDecodeError):
        return None
    return _from_json(text) if text.lstrip().startswith("{") else _from_yaml(text)


def _from_json(text: str) -> str | None:
    document = read_object(text)
    if document is None:
        return None
    value = document.get(_KEY)
    return "" if value is None else value if isinstance(value, str) else None


def _from_yaml(text: str) -> str | None:
    # Not splitlines(), which also splits at characters that are not line breaks in YAML.
    lines = _first_document(text.replace("\r\n", "\n").split("\n"))
    found = [at for at, line in enumerate(lines) if _is_key(line)]
    if len(found) > 1 or any(line.lstrip(" ").startswith("\t") or "\r" in line for line in lines):
        return None
    if not found:
        return ""
    following = next(iter(lines[found[0] + 1 :]), "")
    # A more indented line continues the value.
    return None if following.startswith(" ") else _scalar(lines[found[0]].partition(":")[2].strip(" "))


def _first_document(lines: list[str]) -> list[str]:
    """Return the lines of the first document, which is all that kubectl reads, without blanks and comments."""
    kept: list[str] = []
    for line in lines:
        if line.startswith(("---", "...")):
            if kept:
                break
        elif line.strip(" ") and not line.lstrip(" ").startswith("#"):
            kept.append(line)
    return kept


def _is_key(line: str) -> bool:
    key, colon, rest = line.partition(":")
    return bool(colon) and key.rstrip(" ") in _KEY_SPELLINGS and rest[:1] in ("", " ")


def _scalar(text: str) -> str | None:
    """Return a YAML scalar on one line: plain, or quoted and followed by at most a comment."""
    if text[:1] in ("'", '"'):
        return _quoted(text)
    plain = "" if text.startswith("#") else text.partition(" #")[0].rstrip(" ")
    if plain[:1] in _INDICATORS or ": " in plain or plain.endswith(":"):
        return None
    return "" if plain in ("~", "null", "Null", "NULL") else plain


def _quoted(text: str) -> str | None:
    mark = text[0]
    body = text.partition(" #")[0].rstrip(" ") if not text.endswith(mark) else text
    inner = body[1:-1]
    if len(body) < len("''") or not body.endswith(mark):
        return None
    if mark == "'":
        plain = inner.replace("''", "")
        return None if "'" in plain else inner.replace("''", "'")
    return None if '"' in inner or "\\" in inner else inner
