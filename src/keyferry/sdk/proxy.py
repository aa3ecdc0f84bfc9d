"""Split a URL and choose its proxy, by the rules of Go's programs."""

from __future__ import annotations

from keyferry._net import http_errors
from keyferry._net import proxy as net
from keyferry._net.errors import NetworkError
from keyferry._net.http_errors import split_url
from keyferry._net.proxy import Origin, authorization

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.errors import HttpError

__all__ = ["Origin", "authorization", "choose_proxy", "split_url", "to_http_error"]

_PRIVATE_AUTHORITY = (
    "if a proxy or a private authority issued it, set SSL_CERT_FILE to a bundle with that authority"
)


def choose_proxy(origin: Origin, environ: Mapping[str, str] | None = None) -> Origin | None:
    """Return the environment's proxy for *origin*, or None; loopback never uses one. Raises HttpError."""
    try:
        return net.choose_proxy(origin, environ)
    except NetworkError as error:
        failure = to_http_error(error)
    del environ
    raise failure


def to_http_error(error: NetworkError, url: str = "") -> HttpError:
    """Return *error*, raised by a request to *url*, as the exception for plugins."""
    return http_errors.to_http_error(error, url, _PRIVATE_AUTHORITY)
