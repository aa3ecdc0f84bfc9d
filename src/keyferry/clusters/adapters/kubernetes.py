"""The adapter for the official client: an ``ApiClient`` with all features, or a ``Configuration`` for tokens.

``make_api_client`` supports what all adapters do: client certificates that change, impersonation, and a retry
after a 401. A ``Configuration`` alone, for programs that make their own ``ApiClient``, supports only a token
and the authorities: the token is renewed when it expires, but not after a 401. A user that needs more is
refused, since requests would be sent as another user.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Self, cast
from urllib.parse import unquote, urljoin, urlsplit

from keyferry._core.extras import missing_extra

try:
    import urllib3
    from kubernetes.client import ApiClient, Configuration
except ImportError as missing:
    raise missing_extra("kubernetes", missing) from None
from urllib3.exceptions import ClosedPoolError

from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.urllib3_pools import ConnectionKeeper, check_proxy, discard, with_grant
from keyferry.errors import ClusterAuthError

__all__ = ["make_api_client", "make_configuration"]

_UNAUTHORIZED = 401
_MAX_REDIRECTS = 10
# The client's TLS options for urllib3, which are replaced by one context.
_TLS_OPTIONS = (
    "assert_hostname",
    "ca_cert_data",
    "ca_certs",
    "cert_file",
    "cert_reqs",
    "key_file",
    "server_hostname",
)


def make_api_client(cluster: ClusterAccess) -> ApiClient:
    """Return an ``ApiClient`` for the cluster. The plugin is not run before the first request.

    ``kubernetes.stream`` makes its own connections, and supports only as much as a ``Configuration`` alone.
    """
    configuration = _configure(cluster)
    configuration.api_key["authorization"] = _Deferred(cluster)
    client = ApiClient(configuration)
    rest_client: Any = client.rest_client  # typed in some versions, and too narrowly
    rest_client.pool_manager = _ClusterPools(cluster, rest_client.pool_manager)
    return client


def make_configuration(cluster: ClusterAccess) -> Configuration:
    """Return a ``Configuration`` that uses the current token. The plugin is not run before the first request.

    Raises ClusterAuthError, now or after the plugin has run, if the user has a client certificate or impersonates
    another user, which only ``make_api_client`` supports.
    """
    _check_sufficient(cluster, Grant())

    # A plain function, because other objects are copied along with their configuration.
    def refresh(configuration: Configuration) -> None:
        configuration.api_key["authorization"] = _authorization(cluster)

    configuration = _configure(cluster)
    configuration.refresh_api_key_hook = refresh
    return cast("Configuration", configuration)


def _authorization(cluster: ClusterAccess) -> str:
    """Return the Authorization header. Raises ClusterAuthError if it is not sufficient to authenticate the user."""
    grant = cluster.grant()
    _check_sufficient(cluster, grant)
    return dict(grant.headers).get("Authorization", "")


def _check_sufficient(cluster: ClusterAccess, grant: Grant) -> None:
    certificate = grant.credential.certificate_pem if grant.credential is not None else ""
    why = "impersonates another user" if cluster.config.impersonate else ""
    if certificate or cluster.config.client_certificate_data:
        why = "has a client certificate"
    if why:
        message = f"the user {why}, which is supported only in requests of kubernetes_api_client()"
        raise ClusterAuthError(cluster.server, message)


class _Configuration(Configuration):
    """A configuration that obtains a credential for each request, even if the last one had no token."""

    def auth_settings(self) -> Any:
        """Return the authentication headers of a request."""
        hook: Any = self.refresh_api_key_hook
        if hook is not None:
            hook(self)
        return super().auth_settings() if self.api_key.get("authorization") else {}


class _Deferred(str):
    """A placeholder for the Authorization header, which is resolved by the sender.

    ``_ClusterPools`` recognizes by it that the caller set no header; a websocket converts it to a string.
    """

    __slots__ = ("_cluster",)
    _cluster: ClusterAccess

    def __new__(cls, cluster: ClusterAccess) -> Self:
        deferred = super().__new__(cls, "deferred")
        deferred._cluster = cluster
        return deferred

    def __str__(self) -> str:
        return _authorization(self._cluster)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _Authorities:
    """The cluster's authorities in a file in memory, which exists as long as a configuration refers to it."""

    def __init__(self, pem: bytes) -> None:
        import fcntl

        fd = os.memfd_create("keyferry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, fd).atexit = False
        with open(fd, "wb", closefd=False) as stream:
            stream.write(pem)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        self.path = f"/proc/self/fd/{fd}"

    def __deepcopy__(self, memo: object) -> Self:
        """Return this object, so that a copy of a configuration refers to the same file."""
        return self


class _ClusterPools:
    """A replacement for the client's ``urllib3.PoolManager`` that sends each request as the cluster's user."""

    def __init__(self, cluster: ClusterAccess, manager: urllib3.PoolManager) -> None:
        self._cluster = cluster
        self._manager = manager
        self._keeper = ConnectionKeeper(cluster)
        for name in _TLS_OPTIONS:
            manager.connection_pool_kw.pop(name, None)

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send a request and follow redirects on the same server."""
        for _ in range(_MAX_REDIRECTS):
            self._check(url)
            response = self._send(method, url, options)
            location = response.get_redirect_location()
            if not location or method not in {"GET", "HEAD"}:
                break
            discard(response)
            url = _join(url, location)
        return response

    def clear(self) -> None:
        """Close all connections."""
        self._manager.clear()

    def _send(self, method: str, url: str, options: dict[str, Any]) -> urllib3.BaseHTTPResponse:
        given: dict[str, Any] = options.get("headers") or {}
        headers = {name: value for name, value in given.items() if not isinstance(value, _Deferred)}
        if any(name.lower() == "authorization" for name in headers):
            return self._dispatch(method, url, {**options, "headers": headers})
        grant = self._cluster.grant()
        response = self._dispatch(method, url, {**options, "headers": with_grant(headers, grant)})
        if response.status != _UNAUTHORIZED:
            return response
        renewed = self._cluster.renew(grant)
        if renewed is None or not self._cluster.retries:
            return response
        discard(response)
        return self._dispatch(method, url, {**options, "headers": with_grant(headers, renewed)})

    def _dispatch(self, method: str, url: str, options: dict[str, Any]) -> urllib3.BaseHTTPResponse:
        while True:
            self._manager.connection_pool_kw["ssl_context"] = self._keeper.context
            self._keeper.settle((self._manager,))
            try:
                return self._manager.request(method, url, redirect=False, **options)
            except ClosedPoolError:
                # Closed by another thread for a new certificate, before anything was sent.
                continue

    def _check(self, url: str) -> None:
        """Raise ClusterAuthError if *url* is not on the cluster's server, which alone may get the credential."""
        try:
            origin = _origin(url)
        except ValueError:
            origin = None, url, None
        if origin != _origin(_host(self._cluster)):
            message = f"this client connects only to its cluster, not to {origin[1]!r}"
            raise ClusterAuthError(self._cluster.server, message)


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location


def _host(cluster: ClusterAccess) -> str:
    """Return the server's URL for the client; without a scheme it is an http URL, as in client-go."""
    server = cluster.server
    return (server if "://" in server else f"http://{server}").rstrip("/")


def _origin(url: str) -> tuple[str | None, str | None, int | None]:
    """Return scheme, host and port as urllib3 parses them, which a credential is bound to."""
    parts = urllib3.util.parse_url(url)
    return parts.scheme, parts.host, parts.port or urllib3.connection.port_by_scheme.get(parts.scheme or "")


def _configure(cluster: ClusterAccess) -> Any:
    config = cluster.config
    configuration: Any = _Configuration()  # the client's type hints lack some attributes
    configuration.host = _host(cluster)
    configuration.verify_ssl = not config.insecure
    configuration.tls_server_name = config.tls_server_name or None
    _trust(configuration, cluster)
    _set_proxy(configuration, cluster)
    return configuration


def _trust(configuration: Any, cluster: ClusterAccess) -> None:
    """Set the authorities: a path, which urllib3 and websockets support, or data if there is no file in memory."""
    ca = cluster.config.ca_data
    if not ca:
        return
    cluster.ssl_context(
        ahead=False
    )  # raises for invalid authorities, which the client would report later and less clearly
    if hasattr(os, "memfd_create"):
        configuration.keyferry_authorities = authorities = _Authorities(ca)
        configuration.ssl_ca_cert = authorities.path
    else:
        configuration.ca_cert_data = ca.decode("ascii", "replace")


def _set_proxy(configuration: Any, cluster: ClusterAccess) -> None:
    """Set the kubeconfig's proxy, or none, instead of the one that the client takes from the environment."""
    proxy = check_proxy(cluster)
    configuration.proxy = proxy or None
    configuration.no_proxy = ""
    parts = urlsplit(proxy)
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=login)
