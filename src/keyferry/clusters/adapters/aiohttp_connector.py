"""Connections for aiohttp that use the current client certificate of a session.

When the certificate changes, idle connections are closed at once and the others when their response ends: a
watch continues, and no new request uses a connection made with the old certificate.
"""

from __future__ import annotations

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
    """Return the cluster's URL; without a scheme it is an http URL, as in client-go."""
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
    """A connector that connects only to the cluster, with its TLS settings."""

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
        """Return a connection that was made with the current client certificate."""
        if req.url.origin() != self._origin:
            # For example a redirect: other servers must not get the client certificate or impersonation headers.
            message = f"this session connects only to its cluster, not to {req.url.host!r}"
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
        """Close idle connections that were made with another certificate."""
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
        # The TLS settings of a request are ignored: the kubeconfig determines which server is trusted.
        if not req.is_ssl():
            return None
        if req.url.origin() == self._origin:
            return self._context
        if self._proxy_context is None:
            self._proxy_context = default_context()
        return self._proxy_context
