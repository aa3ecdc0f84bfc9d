"""Docker configs in an instance's metadata, or at a URL in it."""

from keyferry.sdk import ProvideError
from keyferry.sdk.http import HttpOptions, fetch
from keyferry_plugins.google.answers import refusal
from keyferry_plugins.google.dockercfg import read_dockercfg
from keyferry_plugins.google.metadata import ask_metadata

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from keyferry.sdk import AuthConfig
    from keyferry_plugins.google.calls import Calls

__all__ = ["fetch_dockercfg"]

_CONFIG, _ADDRESS = "google-dockercfg", "google-dockercfg-url"


def fetch_dockercfg(calls: "Calls", *, is_by_url: bool) -> "dict[str, AuthConfig]":
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


def _attribute(calls: "Calls", name: str) -> bytes:
    reply = ask_metadata(calls, f"instance/attributes/{name}")
    if not reply.is_success:
        raise refusal(
            reply, "no docker config", f"set the metadata key {name} of the instance or its project"
        )
    return reply.body
