"""Take a URL apart, and find the proxy for it, by the rules of Go's programs."""

from keyferry._net import proxy as net
from keyferry._net.errors import NetworkError, TimedOutError, UntrustedError
from keyferry._net.proxy import Origin, authorization
from keyferry.errors import HttpError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Origin", "authorization", "choose_proxy", "split_url", "to_http_error"]

_PRIVATE_AUTHORITY = "if a proxy or a private authority stands in between, name its bundle in SSL_CERT_FILE"


def split_url(url: str) -> Origin:
    """The parts of an http or https URL; raises HttpError for anything else, quoting only what is no secret."""
    try:
        return net.split_url(url)
    except NetworkError as error:
        failure = to_http_error(error)
    del url
    raise failure


def choose_proxy(origin: Origin, environ: "Mapping[str, str] | None" = None) -> Origin | None:
    """The environment's proxy for *origin*, or None; loopback never goes through one. Raises HttpError."""
    try:
        return net.choose_proxy(origin, environ)
    except NetworkError as error:
        failure = to_http_error(error)
    del environ
    raise failure


def to_http_error(error: NetworkError, url: str = "") -> HttpError:
    """What went wrong on the way to *url*, as plugins are told."""
    hint = error.hint or (_PRIVATE_AUTHORITY if isinstance(error, UntrustedError) else "")
    return HttpError(error.subject or url, error.problem, hint, isinstance(error, TimedOutError))
