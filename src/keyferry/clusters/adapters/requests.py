"""The adapter for requests: a transport adapter for the cluster's URLs only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from keyferry._core.extras import missing_extra

try:
    import requests
except ImportError as missing:
    raise missing_extra("requests", missing) from None
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from requests.exceptions import RequestException, UnrewindableBodyError
from requests.structures import CaseInsensitiveDict
from requests.utils import get_netrc_auth, rewind_body
from urllib3.exceptions import ClosedPoolError

from keyferry._net.url import DEFAULT_PORTS
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.urllib3_pools import ConnectionKeeper, check_proxy, discard, with_grant
from keyferry.errors import ClusterAuthError

__all__ = ["ClusterAdapter", "mount"]

_UNAUTHORIZED = 401


def mount(cluster: ClusterAccess, session: requests.Session) -> requests.Session:
    """Make *session* send requests for the cluster's URLs as its user, and return it.

    Other URLs are not affected. The plugin is not run before the first request. The kubeconfig determines the
    verification of the server, the client certificate and the proxy: ``verify``, ``cert``, ``proxies`` and the
    environment are ignored for these URLs.
    """
    adapter = ClusterAdapter(cluster)
    for prefix in _prefixes(cluster):
        session.mount(prefix, adapter)
    return session


class ClusterAdapter(HTTPAdapter):
    """A transport adapter that sends requests with the cluster's credential.

    After a 401 the credential is renewed, and the request is retried once if its body can be sent again. The
    caller's Authorization header, for example from ``auth=``, is kept; one from a netrc file is dropped.
    """

    def __init__(self, cluster: ClusterAccess, **options: Any) -> None:
        self._cluster = cluster
        self._keeper = ConnectionKeeper(cluster)
        self._proxy = check_proxy(cluster)
        super().__init__(**options)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a requests.Session with a cluster's adapter cannot be pickled or copied")

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request as the cluster's user; the credential is not added to the caller's request object."""
        if _has_own_authorization(request):
            return self._dispatch(request, None, stream, timeout)
        grant = self._cluster.grant()
        response = self._dispatch(request, grant, stream, timeout)
        if response.status_code != _UNAUTHORIZED:
            return response
        renewed = self._cluster.renew(grant)
        if renewed is None or not self._cluster.retries or not _rewind(request):
            return response
        discard(response.raw)
        return self._dispatch(request, renewed, stream, timeout)

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: Any,
        proxies: Any = None,
        cert: Any = None,
    ) -> Any:
        """Return a connection pool with the session's TLS settings and proxy."""
        manager = self.proxy_manager_for(self._proxy) if self._proxy else self.poolmanager
        url = urlsplit(str(request.url))
        return manager.connection_from_host(
            url.hostname, url.port, url.scheme, pool_kwargs={"ssl_context": self._keeper.context}
        )

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Do nothing, since the pool's TLS context verifies the server."""

    def _dispatch(
        self,
        request: requests.PreparedRequest,
        grant: Grant | None,
        stream: bool,
        timeout: Any,
    ) -> requests.Response:
        sent = self._prepare(request, grant)
        proxies = dict.fromkeys(DEFAULT_PORTS, self._proxy) if self._proxy else {}
        while True:
            self._keeper.settle((self.poolmanager, *self.proxy_manager.values()))
            try:
                response = super().send(sent, stream, timeout, True, None, proxies)
            except RequestException as error:
                # The pool was closed by another thread's new certificate, before anything was sent.
                if error.args and isinstance(error.args[0], ClosedPoolError):
                    continue
                error.request = request
                raise
            response.request = request
            return response

    def _prepare(self, request: requests.PreparedRequest, grant: Grant | None) -> requests.PreparedRequest:
        sent = request.copy()
        if self._cluster.config.disable_compression:
            sent.headers["Accept-Encoding"] = "identity"
        if grant is not None:
            # Unlike requests' own mapping, this one allows repeated names, as for several Impersonate-Group headers.
            sent.headers = with_grant(sent.headers, grant)  # type: ignore[assignment] # a mapping as well
        return sent


def _prefixes(cluster: ClusterAccess) -> set[str]:
    """Return the prefixes to mount: the server's URL with a final slash, with and without the default port.

    Without the slash, ``https://cluster`` would also match ``https://cluster.example.org``.
    """
    server = cluster.server if "://" in cluster.server else f"http://{cluster.server}"
    try:
        url = urlsplit(str(requests.Request("GET", server).prepare().url))
        port = url.port
    except (RequestException, ValueError):
        port = url = None
    if url is None or url.scheme not in DEFAULT_PORTS:
        raise ClusterAuthError(cluster.server, "the server is not a URL that requests can use")
    usual = DEFAULT_PORTS[url.scheme]
    host = url.netloc if port is None else url.netloc.removesuffix(f":{port}")
    hosts = {host, f"{host}:{usual}"} if port in {None, usual} else {url.netloc}
    return {f"{url.scheme}://{name}{url.path.rstrip('/')}/" for name in hosts}


def _has_own_authorization(request: requests.PreparedRequest) -> bool:
    """Return whether the caller set a credential; one that requests read from a netrc file does not count."""
    authorization = request.headers.get("Authorization")
    if authorization is None:
        return False
    found = get_netrc_auth(str(request.url))
    if found is None:
        return True
    probe = requests.PreparedRequest()
    probe.headers = CaseInsensitiveDict()
    HTTPBasicAuth(*found)(probe)
    return bool(authorization != probe.headers["Authorization"])


def _rewind(request: requests.PreparedRequest) -> bool:
    """Rewind the body to send it again; return whether that is possible."""
    body: object = request.body
    if body is None or isinstance(body, str | bytes):
        return True
    if not isinstance(getattr(request, "_body_position", None), int):
        return False
    try:
        rewind_body(request)
    except (UnrewindableBodyError, ValueError):
        return False
    return True
