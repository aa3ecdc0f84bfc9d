"""Connections for aiohttp that follow the client certificate of a session.

When the certificate changes, what is idle is closed at once and the rest as it ends: a watch goes on, and
nothing new goes over a connection of the old certificate.
"""

import asyncio
import ssl
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from keyferry._net.trust import default_context
from keyferry.clusters.access import ClusterAccess
from keyferry.errors import ClusterAuthError

__all__ = ["ClusterConnector", "server_url"]


def server_url(cluster: ClusterAccess) -> URL:
    """Where the cluster is; without a scheme it is taken for http, as in client-go."""
    server = cluster.server
    try:
        url = URL(server if "://" in server else f"http://{server}")
        url.origin()
    except ValueError:
        pass
    else:
        return url
    raise ClusterAuthError(server, "the server is not a URL that aiohttp can use")


class ClusterConnector(aiohttp.TCPConnector):
    """Makes connections with the TLS settings of the cluster, and to no other server."""

    def __init__(self, cluster: ClusterAccess, **options: Any) -> None:
        super().__init__(**options)
        self._cluster = cluster
        self._origin = server_url(cluster).origin()
        self._context: ssl.SSLContext | None = None
        self._proxy_context: ssl.SSLContext | None = None
        self._identity: tuple[int, bool] | None = None
        self._made: WeakKeyDictionary[ResponseHandler, tuple[int, bool]] = WeakKeyDictionary()
        self._busy: WeakSet[ResponseHandler] = WeakSet()

    async def connect(self, req: aiohttp.ClientRequest, traces: Any, timeout: Any) -> Connection:
        """A connection that was made under the certificate of the moment."""
        if req.url.origin() != self._origin:
            # A redirect, say: the client certificate and who is impersonated are not for others to see.
            message = f"this session reaches its cluster only, not {req.url.host!r}"
            raise ClusterAuthError(self._cluster.server, message)
        if self._context is None and req.is_ssl():
            self._context = await asyncio.to_thread(self._cluster.ssl_context, ahead=False)
        while True:
            identity = self._settle()
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or self._made.setdefault(protocol, identity) == identity:
                break
            connection.close()
        if protocol is not None:
            self._busy.add(protocol)
            connection.add_callback(partial(self._release_protocol, protocol))
        return connection

    def _settle(self) -> tuple[int, bool]:
        """Close what is idle and was made under another certificate."""
        identity = self._cluster.identity
        if identity != self._identity:
            self._identity = identity
            for protocol, made in list(self._made.items()):
                if made != identity and protocol not in self._busy:
                    protocol.close()
        return identity

    def _release_protocol(self, protocol: ResponseHandler) -> None:
        self._busy.discard(protocol)
        if self._made.get(protocol) != self._cluster.identity:
            protocol.close()

    def _get_ssl_context(self, req: aiohttp.ClientRequest) -> ssl.SSLContext | None:
        # What a request says about TLS does not count: whom to trust is the kubeconfig's to say.
        if not req.is_ssl():
            return None
        if req.url.origin() == self._origin:
            return self._context
        if self._proxy_context is None:
            self._proxy_context = default_context()
        return self._proxy_context
