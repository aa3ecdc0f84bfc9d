"""Send requests to registries through the shared HTTP client, and report its errors as HttpError."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from threading import Lock

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.log import log_debug
from keyferry._net.client import Client, HttpResponse
from keyferry._net.deadline import Deadline, WaitLimits
from keyferry._net.errors import ClosedEarlyError, NetworkError, TimedOutError, TlsError
from keyferry._net.forms import encode_form, encode_query
from keyferry._net.http_errors import split_url, to_http_error
from keyferry._net.proxy import Origin, choose_proxy
from keyferry.errors import HttpError
from keyferry.pulls.mirrors.endpoints import Endpoint
from keyferry.pulls.mirrors.trust import HostTrust, add_trust
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

    The proxies are those of *environ*, by default of this process. The trust, client certificates and headers of
    *endpoint* are used for its own host and port, and for no other that a server names. Raise TrustProblem if a file
    of them cannot be used.
    """

    def __init__(
        self,
        route: RegistryRoute,
        deadline: Deadline,
        environ: Mapping[str, str] | None = None,
        *,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.route = route
        self.own = () if endpoint is None else _origins(endpoint, route)
        self._trust = HostTrust() if endpoint is None else endpoint.trust
        self._lock = Lock()
        self._tls: ssl.SSLContext | None = None
        limits = WaitLimits(
            connect_seconds=route.connect_seconds,
            answer_seconds=route.answer_seconds,
            idle_seconds=route.idle_seconds,
            pace_seconds=route.pace_seconds,
            pace_bytes=route.pace_bytes,
        )

        def client(context: Callable[[], ssl.SSLContext]) -> Client:
            return Client(
                context,
                limits,
                deadline,
                proxy_tls=self._context,
                proxy=lambda origin: choose_proxy(origin, environ) if route.use_proxy else None,
                most_spare=_MOST_SPARE,
                translate_error=_translate_error,
            )

        self._client = self._own_client = client(self._context)
        if self._trust.sets_tls or self._trust.problem:
            own = make_context(route)
            add_trust(own, self._trust)
            self._own_client = client(lambda: own)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of the endpoint's headers, and the words in them."""
        return tuple(word for _, value in self._trust.headers for word in (value, *value.split()))

    def is_own(self, place: Origin) -> bool:
        """Return whether *place* is on the host and port of the endpoint, with a scheme that its file allows."""
        return any(
            (place.scheme, place.host, place.port) == (own.scheme, own.host, own.port) for own in self.own
        )

    def allows_plain(self, place: Origin) -> bool:
        """Return whether plain HTTP is allowed for *place*: on the user's request, or by the endpoint's file."""
        return self.route.is_insecure or (place.scheme == "http" and self.is_own(place))

    def request(
        self, origin: Origin, method: str, headers: Mapping[str, str], body: bytes = b"", *, admit: Admit
    ) -> HttpResponse:
        """Send a request and read the head of the response; raise HttpError if that fails.

        *admit* is called with the address before anything is sent to it, and raises if it is not allowed. Behind a
        proxy, which resolves names itself, it is called with an empty string for a name.
        """

        def check_address(address: str) -> None:
            admit(address or literal_address(origin.host))

        is_own = self.is_own(origin)
        given = {name.lower() for name in headers}
        more = [each for each in self._trust.headers if is_own and each[0].lower() not in given]
        client = self._own_client if is_own else self._client
        answer = client.request(origin, method, (*more, *headers.items()), body, check_address=check_address)
        log_debug("registry", "%s %s: status %d", method, origin.host, answer.head.status)
        return answer

    def speaks_tls(self, origin: Origin) -> bool:
        """Return whether a server speaks TLS; raise HttpError if it is not trusted or cannot be reached."""
        try:
            (self._own_client if self.is_own(origin) else self._client).connect(origin)
        except (TlsError, ClosedEarlyError, TimedOutError):
            return False
        except NetworkError as error:
            failure = _translate_error(origin, error)
        else:
            return True
        raise failure

    def interrupt(self) -> None:
        """Abort all requests in progress, so that their threads return at once."""
        self._client.interrupt()
        self._own_client.interrupt()

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()
        self._own_client.close()

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = make_context(self.route)
            return self._tls


def _origins(endpoint: Endpoint, route: RegistryRoute) -> tuple[Origin, ...]:
    """Return the addresses of an endpoint, in the order in which they are tried: HTTPS, plain HTTP, or both."""
    scheme = endpoint.api.partition(":")[0]
    schemes = (
        ("https", "http") if endpoint.falls_back or (route.is_insecure and scheme == "https") else (scheme,)
    )
    # Docker Hub's name is not that of its server.
    host = REGISTRY_HOST if endpoint.host == HUB else endpoint.host
    return tuple(split_url(f"{each}://{host}") for each in schemes)


def _translate_error(origin: Origin, error: NetworkError) -> HttpError:
    return to_http_error(error, str(origin), _PRIVATE_AUTHORITY)
