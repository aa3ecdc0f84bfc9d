"""Docker configs in an instance's metadata, or at a URL in it, in docker's old format: registries and their logins."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64

from keyferry._core.json import read_object
from keyferry.sdk import AuthConfig, ProvideError
from keyferry.sdk.http import HttpOptions, fetch
from keyferry_plugins.google.answers import refusal
from keyferry_plugins.google.metadata import ask_metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry_plugins.google.calls import Calls

__all__ = ["fetch_dockercfg", "read_dockercfg"]

_CONFIG, _ADDRESS = "google-dockercfg", "google-dockercfg-url"


def fetch_dockercfg(calls: Calls, *, is_by_url: bool) -> dict[str, AuthConfig]:
    """Return the logins of the instance's docker config."""
    if not is_by_url:
        return read_dockercfg(_attribute(calls, _CONFIG), f"the instance's attribute {_CONFIG}")
    url = _attribute(calls, _ADDRESS).decode("utf-8", "replace").strip()
    if not url.startswith(("http://", "https://")):
        raise ProvideError(f"the instance's attribute {_ADDRESS} is not an http:// or https:// URL")
    reply = fetch(
        "GET", url, deadline=calls.deadline, retry=calls.retry, options=HttpOptions(attempt_seconds=10)
    )
    if not reply.is_success:
        raise refusal(reply, "no docker config", f"check the URL in the instance's attribute {_ADDRESS}")
    return read_dockercfg(reply.body, f"the document at the URL in the instance's attribute {_ADDRESS}")


def _attribute(calls: Calls, name: str) -> bytes:
    reply = ask_metadata(calls, f"instance/attributes/{name}")
    if not reply.is_success:
        raise refusal(
            reply, "no docker config", f"set the metadata key {name} of the instance or its project"
        )
    return reply.body


def read_dockercfg(data: bytes, where: str) -> dict[str, AuthConfig]:
    """Return the logins in a ``.dockercfg`` by key; raise ProvideError, which quotes none of it, if it is invalid."""
    document = read_object(data)
    if document is None:
        raise ProvideError(f"{where} is not a JSON object of registries")
    return {key: _login(key, entry, where) for key, entry in document.items()}


def _login(key: str, entry: object, where: str) -> AuthConfig:
    if not isinstance(entry, dict):
        raise ProvideError(f"{where}: the entry of {key[:200]!r} is not an object")
    packed = _text(entry, "auth", key, where)
    if packed:
        return _unpack(packed, key, where)
    return AuthConfig(_text(entry, "username", key, where), _text(entry, "password", key, where))


def _text(entry: Mapping[str, object], name: str, key: str, where: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise ProvideError(f"{where}: {name} of {key[:200]!r} is not a string")
    return value or ""


def _unpack(packed: str, key: str, where: str) -> AuthConfig:
    """Return user name and password, decoded from base64 with or without padding."""
    text = packed.strip()
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    pair = ""
    try:
        pair = a2b_base64((text + padding).encode("ascii"), strict_mode=True).decode()
    except (Base64Error, ValueError):
        pass
    username, colon, password = pair.partition(":")
    if not colon:
        raise ProvideError(
            f"{where}: auth of {key[:200]!r} is not base64 of a user name, a colon and a password"
        )
    return AuthConfig(username, password)
