"""Determine and check the destinations of requests: the registry, its token server, and its redirects."""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.values import replace
from keyferry._net.url import DEFAULT_PORTS, join_url
from keyferry.errors import HttpError, Kind, RegistryError
from keyferry.pulls.registry.addresses import is_loopback, is_loopback_name, is_this_machine, why_forbidden
from keyferry.pulls.registry.transport import Admit, HttpResponse, Origin, Transport, split_url

__all__ = ["admit_server_named", "admit_user_named", "find_origin", "find_realm", "find_redirect"]

_PING = "/v2/"
_BAD_REQUEST = 400
_MOST_WORDS = 1 << 12
AllowsPlain = Callable[[Origin], bool]


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
            return b"HTTPS" not in answer.read(_MOST_WORDS)
    except HttpError:
        return False


def find_realm(registry: str, realm: str, answer: HttpResponse, *, allows_plain: AllowsPlain) -> Origin:
    """Return the address of the token server in a challenge; raise RegistryError if it is not safe to use.

    *answer* is the response that contains the challenge, *realm* the URL in it. *allows_plain* tells whether an address
    with plain HTTP may be used.
    """
    place = _split(registry, realm, "token server")
    _check_plain(registry, place, answer, is_allowed=allows_plain(place), what="its token server")
    return place


def find_redirect(registry: str, answer: HttpResponse, *, allows_plain: AllowsPlain) -> Origin:
    """Return the destination of a redirect; raise RegistryError if it is not safe to use."""
    base = f"{answer.origin.scheme}://{answer.origin.authority}{answer.origin.target}"
    location = answer.head.value("location")
    if not location:
        raise RegistryError(registry, answer.head.status, "redirects without a location", Kind.CONTENT)
    try:
        place = _split(registry, join_url(base, location), "redirect")
    except ValueError:
        raise RegistryError(registry, 0, "redirects to an invalid URL", Kind.UNSAFE) from None
    if answer.origin.scheme == "https" and place.scheme == "http" and not allows_plain(place):
        raise RegistryError(
            registry, 0, f"redirects from HTTPS to plain HTTP at {place.authority}", Kind.UNSAFE
        )
    _check_plain(registry, place, answer, is_allowed=allows_plain(place), what="a redirect")
    return place


def _split(registry: str, url: str, what: str) -> Origin:
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
