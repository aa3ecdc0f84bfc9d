"""Send requests to registries through the shared HTTP client, and report its errors as HttpError."""

import ssl
from collections.abc import Callable, Mapping
from threading import Lock

from keyferry._core.log import log_debug
from keyferry._net.client import Client, HttpResponse
from keyferry._net.deadline import Deadline, WaitLimits
from keyferry._net.errors import ClosedEarlyError, NetworkError, TimedOutError, TlsError
from keyferry._net.forms import encode_form, encode_query
from keyferry._net.http_errors import split_url, to_http_error
from keyferry._net.proxy import Origin, choose_proxy
from keyferry.errors import HttpError
from keyferry.pulls.registry.addresses import literal_address
from keyferry.pulls.registry.route import RegistryRoute, make_context

__all__ = [
    "Admit",
    "Deadline",
    "HttpResponse",
    "Origin",
    "Transport",
    "encode_form",
    "encode_query",
    "split_url",
]

Admit = Callable[[str], None]

_MOST_SPARE = 8
_PRIVATE_AUTHORITY = "if its authority is private, name its certificate with --ca-file or in SSL_CERT_FILE"


class Transport:
    """A client for all servers of one pull; safe to use from several threads.

    The proxies are those of *environ*, by default of this process.
    """

    def __init__(
        self, route: RegistryRoute, deadline: Deadline, environ: Mapping[str, str] | None = None
    ) -> None:
        self.route = route
        self._lock = Lock()
        self._tls: ssl.SSLContext | None = None
        self._client = Client(
            self._context,
            WaitLimits(
                route.connect_seconds,
                route.answer_seconds,
                route.idle_seconds,
                route.pace_seconds,
                route.pace_bytes,
            ),
            deadline,
            proxy=lambda origin: choose_proxy(origin, environ) if route.use_proxy else None,
            most_spare=_MOST_SPARE,
            tell=_tell,
        )

    def request(
        self, origin: Origin, method: str, headers: Mapping[str, str], body: bytes = b"", *, admit: Admit
    ) -> HttpResponse:
        """Send a request and read the head of the response; raise HttpError if that fails.

        *admit* is called with the address before anything is sent to it, and raises if it is not allowed. Behind a
        proxy, which resolves names itself, it is called with an empty string for a name.
        """

        def judge(address: str) -> None:
            admit(address or literal_address(origin.host))

        answer = self._client.request(origin, method, headers.items(), body, admit=judge)
        log_debug("registry", "%s %s: status %d", method, origin.host, answer.head.status)
        return answer

    def speaks_tls(self, origin: Origin) -> bool:
        """Return whether a server speaks TLS; raise HttpError if it is not trusted or cannot be reached."""
        try:
            self._client.connect(origin)
        except (TlsError, ClosedEarlyError, TimedOutError):
            return False
        except NetworkError as error:
            failure = _tell(origin, error)
        else:
            return True
        raise failure

    def interrupt(self) -> None:
        """Abort all requests in progress, so that their threads return at once."""
        self._client.interrupt()

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = make_context(self.route)
            return self._tls


def _tell(origin: Origin, error: NetworkError) -> HttpError:
    return to_http_error(error, str(origin), _PRIVATE_AUTHORITY)
