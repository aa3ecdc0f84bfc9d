"""Requests to registries through the shared HTTP client: settings, connections, and permitted destinations."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from threading import Lock

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.host_root import host_root, is_on_host, on_host
from keyferry._core.log import log_debug
from keyferry._core.type_forms import Protocol
from keyferry._core.values import Value, replace
from keyferry._net.client import Client, HttpResponse
from keyferry._net.deadline import Deadline, WaitLimits
from keyferry._net.errors import ClosedEarlyError, NetworkError, TimedOutError, TlsError
from keyferry._net.http_errors import split_url, to_http_error
from keyferry._net.messages import Head
from keyferry._net.proxy import Origin, choose_proxy
from keyferry._net.trust import SYSTEM_BUNDLES, default_context
from keyferry._net.url import DEFAULT_PORTS, join_url
from keyferry.errors import EnvironmentProblem, HttpError, Kind, RegistryError
from keyferry.pulls.mirrors.endpoints import Endpoint
from keyferry.pulls.mirrors.files import HostTrust, add_trust
from keyferry.pulls.registry.addresses import (
    is_loopback,
    is_loopback_name,
    is_this_machine,
    literal_address,
    why_forbidden,
)

Admit = Callable[[str], None]
_MAX_SPARE = 8
_PRIVATE_AUTHORITY = "if its authority is private, name its certificate with --ca-file or in SSL_CERT_FILE"
_PING = "/v2/"
_BAD_REQUEST = 400
_MAX_WORDS = 1 << 12
AllowsPlain = Callable[[Origin], bool]


class Meter(Protocol):
    """Sees the requests of a transport."""

    def begin(self) -> None:
        """Note that a request is about to be sent; raise RegistryError if it may not."""

    def note(self, head: Head) -> None:
        """Note the head of a response."""


class RegistryRoute(Value):
    """The settings for connections to registries: trusted authorities, time limits, and parallel downloads.

    *ca_file* is a bundle that is trusted in addition to the system's. *is_insecure* allows plain HTTP and any
    certificate; set it only on the user's request. *answer_seconds* limits a whole response, except the body of a
    blob. The body of a blob has no total limit, but each wait is limited to *idle_seconds*, and at least *pace_bytes*
    must arrive in every *pace_seconds* of waiting.
    """

    use_proxy: bool = True
    ca_file: str = ""
    is_insecure: bool = False
    connect_seconds: float = 10.0
    answer_seconds: float = 30.0
    idle_seconds: float = 30.0
    pace_seconds: float = 30.0
    pace_bytes: int = 1 << 15
    parallel_blobs: int = 3


def make_context(route: RegistryRoute) -> ssl.SSLContext:
    """Return the TLS context of a client; raise EnvironmentProblem if the bundle cannot be read."""
    context = default_context(_host_bundle())
    if route.ca_file:
        try:
            context.load_verify_locations(route.ca_file)
        except FileNotFoundError:
            raise EnvironmentProblem(f"CA file {route.ca_file!r}: does not exist") from None
        except (OSError, ValueError):
            raise EnvironmentProblem(
                f"CA file {route.ca_file!r}: cannot be read as certificates in PEM"
            ) from None
    if route.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _host_bundle() -> str:
    """Return the bundle of the authorities that the system below the host root trusts; empty without one."""
    found = (path for path in SYSTEM_BUNDLES if is_on_host(path, os.path.isfile))
    path = next(found, "") if host_root() else ""
    return on_host(path) if path else ""


class Transport:
    """A client for all servers of one pull; safe to use from several threads.

    The proxies are those of *environ*, by default of this process. The trust, client certificates and headers of
    *endpoint* are used for its own host and port, and for no other that a server names. Raise TrustProblem if a file
    of them cannot be used. *meter* sees every request and its response, whichever server it is sent to.
    """

    def __init__(
        self,
        route: RegistryRoute,
        deadline: Deadline,
        environ: Mapping[str, str] | None = None,
        *,
        endpoint: Endpoint | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.route = route
        self._meter = meter
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
                most_spare=_MAX_SPARE,
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
        if self._meter is not None:
            self._meter.begin()
        answer = client.request(origin, method, (*more, *headers.items()), body, check_address=check_address)
        if self._meter is not None:
            self._meter.note(answer.head)
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


def find_origin(transport: Transport, registry: str) -> Origin:
    """Return the scheme, host and port of a registry that an image name contains.

    The scheme is HTTPS; for a loopback host, or if the route is insecure, it is HTTP or HTTPS, depending on the
    server. To find out, only a request without a credential is sent. Raise HttpError if it cannot be reached.
    """
    origin = split_url(f"https://{REGISTRY_HOST if registry == HUB else registry}")
    is_local = is_loopback_name(origin.host)
    if not is_local and not transport.route.is_insecure:
        return origin
    has_port = origin.port != DEFAULT_PORTS["https"] or registry.endswith(f":{DEFAULT_PORTS['https']}")
    plain = replace(origin, scheme="http", port=origin.port if has_port else DEFAULT_PORTS["http"])
    if is_local and not transport.route.ca_file:
        return plain if _speaks_http(transport, plain) else origin
    return origin if transport.speaks_tls(origin) else plain


def _speaks_http(transport: Transport, origin: Origin) -> bool:
    try:
        answer = transport.request(replace(origin, target=_PING), "GET", {}, admit=lambda _: None)
        if answer.head.status != _BAD_REQUEST:
            answer.drain()
            return True
        with answer:
            # HTTPS servers send this error, in plain HTTP, in response to a plain HTTP request.
            return b"HTTPS" not in answer.read(_MAX_WORDS)
    except HttpError:
        return False


def find_realm(registry: str, realm: str, answer: HttpResponse, *, allows_plain: AllowsPlain) -> Origin:
    """Return the address of the token server in a challenge; raise RegistryError if it is not safe to use.

    *answer* is the response that contains the challenge, *realm* the URL in it. *allows_plain* tells whether an address
    with plain HTTP may be used.
    """
    place = _split_named(registry, realm, "token server")
    _check_plain(registry, place, answer, is_allowed=allows_plain(place), what="its token server")
    return place


def find_redirect(registry: str, answer: HttpResponse, *, allows_plain: AllowsPlain) -> Origin:
    """Return the destination of a redirect; raise RegistryError if it is not safe to use."""
    base = f"{answer.origin.scheme}://{answer.origin.authority}{answer.origin.target}"
    location = answer.head.value("location")
    if not location:
        raise RegistryError(registry, answer.head.status, "redirects without a location", Kind.CONTENT)
    try:
        place = _split_named(registry, join_url(base, location), "redirect")
    except ValueError:
        raise RegistryError(registry, 0, "redirects to an invalid URL", Kind.UNSAFE) from None
    if answer.origin.scheme == "https" and place.scheme == "http" and not allows_plain(place):
        raise RegistryError(
            registry, 0, f"redirects from HTTPS to plain HTTP at {place.authority}", Kind.UNSAFE
        )
    _check_plain(registry, place, answer, is_allowed=allows_plain(place), what="a redirect")
    return place


def _split_named(registry: str, url: str, what: str) -> Origin:
    try:
        place = split_url(url)
    except HttpError:
        raise RegistryError(
            registry, 0, f"names a {what} that is not an http or https URL", Kind.UNSAFE
        ) from None
    if place.user_info:
        raise RegistryError(
            registry, 0, f"names a {what} with a user name in it, at {place.authority}", Kind.UNSAFE
        )
    return place


def _check_plain(registry: str, place: Origin, answer: HttpResponse, *, is_allowed: bool, what: str) -> None:
    is_local = bool(answer.address) and is_loopback(answer.address)
    if place.scheme == "https" or is_allowed or is_local:
        return
    raise RegistryError(
        registry, 0, f"requires plain HTTP for {what} at {place.authority}, which is not allowed", Kind.UNSAFE
    )


def admit_user_named(registry: str, origin: Origin, *, is_insecure: bool) -> Admit:
    """Return a check for addresses that the user named: plain HTTP is limited to loopback, unless *is_insecure*."""

    def admit(address: str) -> None:
        is_local = bool(address) and is_loopback(address)
        if origin.scheme == "http" and not is_insecure and not is_local:
            message = f"{origin.authority} is not a loopback address, and plain HTTP is limited to those"
            raise RegistryError(registry, 0, message, Kind.UNSAFE)

    return admit


def admit_server_named(registry: str, place: Origin, answer: HttpResponse, *, is_insecure: bool) -> Admit:
    """Return a check for addresses that a server named, applied to the address that is connected to.

    Addresses of this machine are allowed only if the server is on it too, link-local and metadata addresses never.
    """
    allows_this_machine = bool(answer.address) and is_this_machine(answer.address)
    named = admit_user_named(registry, place, is_insecure=is_insecure)

    def admit(address: str) -> None:
        why = why_forbidden(address, allows_this_machine=allows_this_machine) if address else ""
        if why:
            raise RegistryError(registry, 0, f"leads to {place.authority}, which is {why}", Kind.UNSAFE)
        named(address)

    return admit
