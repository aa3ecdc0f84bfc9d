"""A cluster session for requests: an adapter for the cluster's URLs, and for no others."""

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

from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.urllib3_pools import ConnectionKeeper, check_proxy, discard, with_grant
from keyferry.errors import ClusterAuthError

__all__ = ["ClusterAdapter", "mount"]

_UNAUTHORIZED = 401
_PORTS = {"http": 80, "https": 443}


def mount(cluster: ClusterAccess, session: requests.Session) -> requests.Session:
    """Let *session* reach the cluster's URLs as its user; nothing changes for other URLs.

    Nothing is run before the first request. How the server is verified, the client certificate and the proxy
    are the kubeconfig's to say: ``verify``, ``cert``, ``proxies`` and the environment do not count for these URLs.
    """
    adapter = ClusterAdapter(cluster)
    for prefix in _prefixes(cluster):
        session.mount(prefix, adapter)
    return session


class ClusterAdapter(HTTPAdapter):
    """Sends requests with the cluster's credential.

    After a 401 the credential is renewed and the request, if its body can be sent again, retried once. A
    request with an Authorization of its own, such as ``auth=``, is left alone; one from a netrc file is dropped.
    """

    def __init__(self, cluster: ClusterAccess, **options: Any) -> None:
        self._cluster = cluster
        self._keeper = ConnectionKeeper(cluster)
        self._proxy = check_proxy(cluster)
        super().__init__(**options)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a requests.Session that reaches a cluster cannot be pickled or copied")

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request as the cluster's user; the caller's request never holds the credential."""
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
        """A pool of connections that are made with the session's TLS settings, through its proxy."""
        manager = self.proxy_manager_for(self._proxy) if self._proxy else self.poolmanager
        url = urlsplit(str(request.url))
        return manager.connection_from_host(
            url.hostname, url.port, url.scheme, pool_kwargs={"ssl_context": self._keeper.context}
        )

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave the pool as it is: its context verifies."""

    def _dispatch(
        self,
        request: requests.PreparedRequest,
        grant: Grant | None,
        stream: bool,
        timeout: Any,
    ) -> requests.Response:
        sent = self._prepare(request, grant)
        proxies = dict.fromkeys(_PORTS, self._proxy) if self._proxy else {}
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
            # Unlike requests' own mapping this one can hold a name twice, as groups to impersonate need.
            sent.headers = with_grant(sent.headers, grant)  # type: ignore[assignment] # as good a mapping
        return sent


def _prefixes(cluster: ClusterAccess) -> set[str]:
    """Where the adapter is mounted: the server's URL up to a slash, with and without the usual port.

    Without the slash ``https://cluster`` would count for ``https://cluster.example.org`` as well.
    """
    server = cluster.server if "://" in cluster.server else f"http://{cluster.server}"
    try:
        url = urlsplit(str(requests.Request("GET", server).prepare().url))
        port = url.port
    except (RequestException, ValueError):
        port = url = None
    if url is None or url.scheme not in _PORTS:
        raise ClusterAuthError(cluster.server, "the server is not a URL that requests can use")
    usual = _PORTS[url.scheme]
    host = url.netloc if port is None else url.netloc.removesuffix(f":{port}")
    hosts = {host, f"{host}:{usual}"} if port in {None, usual} else {url.netloc}
    return {f"{url.scheme}://{name}{url.path.rstrip('/')}/" for name in hosts}


def _has_own_authorization(request: requests.PreparedRequest) -> bool:
    """Tell whether the caller brings a credential; one that requests found in a netrc file is not the caller's."""
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
    """Make the body ready to be sent again; tell whether that can be done."""
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
