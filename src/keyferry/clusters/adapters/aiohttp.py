"""The adapter for aiohttp: a ``ClientSession`` that sends requests to the cluster only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keyferry._core.extras import missing_extra

try:
    import aiohttp
except ImportError as missing:
    raise missing_extra("aiohttp", missing) from None
from aiohttp import ClientRequest, ClientResponse
from aiohttp.hdrs import AUTHORIZATION
from aiohttp.payload import BytesPayload, IOBasePayload
from multidict import CIMultiDict
from yarl import URL

from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.aiohttp_connector import ClusterConnector, server_url
from keyferry.errors import ClusterAuthError

if TYPE_CHECKING:
    from aiohttp.client_middlewares import ClientHandlerType

__all__ = ["ClusterMiddleware", "make_client_session"]

_UNAUTHORIZED = 401
_MAX_READ = 10_000
# The adapter sets these options.
_RESERVED = frozenset(("auth", "base_url", "connector", "proxy", "proxy_auth", "trust_env"))
_CONNECTOR_OPTIONS = ("keepalive_timeout", "limit", "limit_per_host")


def make_client_session(cluster: ClusterAccess, **options: Any) -> aiohttp.ClientSession:
    """Return a ``ClientSession`` for the cluster's server. The plugin is not run before the first request.

    Call it on the event loop that uses the session. *options* are those of ``aiohttp.ClientSession``, except
    those that the kubeconfig determines, and ``limit``, ``limit_per_host`` and ``keepalive_timeout`` of its
    connector. The ``ssl`` argument of a request is ignored.
    """
    reserved = _RESERVED.intersection(options)
    if reserved:
        raise TypeError(f"the cluster's session sets these options itself: {', '.join(sorted(reserved))}")
    proxy = _proxy(cluster)
    headers = CIMultiDict(options.pop("headers", None) or ())
    if cluster.config.disable_compression:
        headers.setdefault("Accept-Encoding", "identity")
    limits = {name: options.pop(name) for name in _CONNECTOR_OPTIONS if name in options}
    settings = {**options, "connector": ClusterConnector(cluster, **limits), "headers": headers}
    if hasattr(aiohttp, "ClientMiddlewareType"):
        settings["middlewares"] = (*options.get("middlewares", ()), ClusterMiddleware(cluster))
        return aiohttp.ClientSession(_base_url(cluster), proxy=proxy, **settings)
    return make_without_middlewares(cluster, proxy, settings)


class ClusterMiddleware:
    """An aiohttp middleware that adds the credential to each request to the cluster.

    After a 401 the credential is renewed, and the request is retried once if its body can be sent again.
    Requests that have an Authorization header are not changed. Neither are requests with a ``middlewares``
    argument, which aiohttp uses instead of this middleware.
    """

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._origin = server_url(cluster).origin()

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request as the cluster's user."""
        if AUTHORIZATION in request.headers or request.url.origin() != self._origin:
            return await handler(request)
        own = request.headers.copy()
        grant = await self._cluster.grant_async()
        _replace(request.headers, with_grant(self._cluster, own, grant))
        response = await handler(request)
        renewed = await renew(self._cluster, grant, response, is_replayable=_is_replayable(request.body))
        if renewed is None:
            return response
        _replace(request.headers, with_grant(self._cluster, own, renewed))
        return await handler(request)


class _Wrapper:
    """A wrapper of the method that sends every request, for versions of aiohttp without middlewares."""

    def __init__(self, cluster: ClusterAccess, proxy: URL | None, session: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._base_url = _base_url(cluster)
        self._session = session
        self._request = session._request  # noqa: SLF001 - there is no public method for this

    async def __call__(self, method: str, str_or_url: str | URL, **options: Any) -> ClientResponse:
        """Send a request as the cluster's user."""
        url = self._base_url.join(URL(str_or_url))
        options = {"proxy": self._proxy, **options}
        own = CIMultiDict(options.pop("headers", None) or ())
        if self._is_left_alone(url, own, options):
            return await self._request(method, url, headers=own, **options)
        check = options.pop("raise_for_status", None)
        check = self._session.raise_for_status if check is None else check
        grant = await self._cluster.grant_async()
        headers = with_grant(self._cluster, own, grant)
        response = await self._request(method, url, headers=headers, raise_for_status=False, **options)
        # Sending closes files and consumes streams, so only data in memory can be sent again.
        is_replayable = isinstance(options.get("data"), str | bytes | bytearray | None)
        renewed = await renew(self._cluster, grant, response, is_replayable=is_replayable)
        if renewed is None:
            return await _judge(response, check)
        headers = with_grant(self._cluster, own, renewed)
        return await self._request(method, url, headers=headers, raise_for_status=check, **options)

    def _is_left_alone(self, url: URL, own: CIMultiDict[str], options: dict[str, Any]) -> bool:
        has_own = AUTHORIZATION in own or AUTHORIZATION in self._session.headers or options.get("auth")
        return bool(has_own or url.user) or url.origin() != self._base_url.origin()


def make_without_middlewares(
    cluster: ClusterAccess, proxy: URL | None, settings: dict[str, Any]
) -> aiohttp.ClientSession:
    """Return the same as ``make_client_session`` for aiohttp before 3.12; only a body in memory is sent again."""
    session = aiohttp.ClientSession(**settings)
    # Bypasses aiohttp's __setattr__, which warns about unknown attributes in debug mode.
    object.__setattr__(session, "_request", _Wrapper(cluster, proxy, session))
    return session


async def _judge(response: ClientResponse, check: Any) -> ClientResponse:
    """Apply ``raise_for_status`` as aiohttp does."""
    if callable(check):
        await check(response)
    elif check:
        response.raise_for_status()
    return response


async def renew(
    cluster: ClusterAccess, grant: Grant, response: ClientResponse, *, is_replayable: bool
) -> Grant | None:
    """Return a grant to retry with and discard the response, if its status is 401; otherwise None."""
    if response.status != _UNAUTHORIZED:
        return None
    try:
        renewed = await cluster.renew_async(grant)
        if renewed is None or not cluster.retries or not is_replayable:
            return None
        await _discard(response)
    except BaseException:
        response.close()
        raise
    return renewed


def with_grant(cluster: ClusterAccess, own: CIMultiDict[str], grant: Grant) -> CIMultiDict[str]:
    """Return the headers of a request with those of a grant. Raises ClusterAuthError if they cannot be encoded."""
    headers = own.copy()
    # As in client-go, impersonation headers of the request take precedence over those of the grant.
    is_own = "Impersonate-User" in own
    for name, value in grant.headers:
        if name == AUTHORIZATION or not is_own:
            headers.add(name, value)
            if not _is_text(value):
                raise ClusterAuthError(cluster.server, "the token is not valid UTF-8, which aiohttp requires")
    return headers


def _is_text(value: str) -> bool:
    """Return whether aiohttp can encode a value; its own error would contain the token."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _replace(headers: CIMultiDict[str], new: CIMultiDict[str]) -> None:
    headers.clear()
    headers.extend(new)


def _is_replayable(body: object) -> bool:
    """Return whether a body can be sent again: data in memory, or a file that can be rewound."""
    if isinstance(body, BytesPayload | IOBasePayload):
        return not body.consumed
    return body is None or body == b""


async def _discard(response: ClientResponse) -> None:
    """Discard a refused response; its connection is reused if the rest of the body is short."""
    length = response.content_length
    if length is not None and length < _MAX_READ:
        try:
            await response.read()
        except aiohttp.ClientError:
            pass
    response.release()


def _base_url(cluster: ClusterAccess) -> URL:
    url = server_url(cluster)
    return url if url.path.endswith("/") else url.with_path(f"{url.raw_path}/", encoded=True)


def _proxy(cluster: ClusterAccess) -> URL | None:
    """Return the kubeconfig's proxy; errors do not contain its URL, which may contain a password."""
    text = cluster.config.proxy_url
    if not text:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        message = "the proxy is not an http or https URL, which aiohttp requires"
        raise ClusterAuthError(cluster.server, message)
    return url
