"""The two facts about kubeconfigs that the cluster plugin needs: the first file, and the current context.

A YAML parser would slow down the start of every kubectl command. The current context is one line of the
outermost mapping. Any other form counts as unreadable, which only disables the token cache.
"""

from __future__ import annotations

import os

from keyferry._core.json import loads
from keyferry.errors import DocumentError
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["current_context", "default_kubeconfig"]

_KEY = "current-context"
_KEY_SPELLINGS = (_KEY, f'"{_KEY}"', f"'{_KEY}'")
# The characters that begin a value other than plain text: anchors, aliases, tags, blocks, collections and so
# on.
_INDICATORS = frozenset("&*!|>{[]}%@`,?#")


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
    try:
        document = loads(text)
    except DocumentError:
        return None
    value = document.get(_KEY, "") if isinstance(document, dict) else None
    return "" if value is None and isinstance(document, dict) else value if isinstance(value, str) else None


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
