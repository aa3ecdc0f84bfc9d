"""URLs and registry names, as Go's programs parse them."""

from __future__ import annotations

from keyferry._net.address import is_loopback_host
from keyferry._net.url import (
    UrlSyntaxError,
    read_url,
    split_host_port,
    split_registry_key,
    split_registry_url,
)

__all__ = [
    "UrlSyntaxError",
    "is_loopback_host",
    "is_safe_for_secrets",
    "read_url",
    "split_host_port",
    "split_registry_key",
    "split_registry_url",
]


def is_safe_for_secrets(url: str) -> bool:
    """Return whether a secret may be sent to *url*: by https, or by http to a loopback host; False if it is invalid."""
    # Only here: whoever just reads URLs needs neither proxies nor the network's errors.
    from keyferry._net.errors import UrlError
    from keyferry._net.proxy import split_url

    try:
        origin = split_url(url)
    except UrlError:
        return False
    return origin.scheme == "https" or is_loopback_host(origin.host)
