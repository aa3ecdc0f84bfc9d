"""Managed identity in Service Fabric: a server with a self-signed certificate, identified by its thumbprint."""

from __future__ import annotations

from keyferry.sdk import HttpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply

__all__ = ["ask_service_fabric"]

_THUMBPRINT = "IDENTITY_SERVER_THUMBPRINT"
_MOST_BYTES = 1 << 20


def ask_service_fabric(environ: Mapping[str, str], fields: Mapping[str, str], deadline: Deadline) -> Reply:
    """Return the response of the node's token service; the secret is sent only if the certificate matches."""
    from keyferry._net.forms import encode_query
    from keyferry._net.http_errors import split_url
    from keyferry.sdk.http import ONCE, HttpOptions, Thumbprint, fetch

    endpoint = environ["IDENTITY_ENDPOINT"].partition("#")[0]
    origin = split_url(endpoint)
    if origin.scheme != "https" or origin.user_info:
        raise HttpError("IDENTITY_ENDPOINT", "is not an https:// URL")
    mark = "&" if "?" in endpoint else "?"
    return fetch(
        "GET",
        f"{endpoint}{mark}{encode_query(fields)}",
        deadline=deadline,
        headers={"Secret": environ["IDENTITY_HEADER"], "Accept": "application/json"},
        retry=ONCE,
        options=HttpOptions(
            use_proxy=False, thumbprint=Thumbprint(environ[_THUMBPRINT], _THUMBPRINT), most_bytes=_MOST_BYTES
        ),
    )
