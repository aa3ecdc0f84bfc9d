"""The adapter for httpx: an ``Auth`` for any client, and sync and async clients for the cluster."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from keyferry._core.extras import missing_extra

try:
    import httpx
except ImportError as missing:
    raise missing_extra("httpx", missing) from None

from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.adapters.httpx_client import Adapter, AuthFlow

__all__ = ["ClusterAuth", "make_async_client", "make_client"]


class ClusterAuth(AuthFlow, httpx.Auth):
    """An httpx ``Auth`` that adds the credential to each request to the session's server, and to no other.

    After a 401 the credential is renewed, and the request is retried once if its body can be sent again.
    Requests that have an Authorization header are not changed.
    """

    library: ClassVar[ModuleType] = httpx


_ADAPTER = Adapter.make(httpx, ClusterAuth)


def make_client(session: ClusterAccess, **options: Any) -> httpx.Client:
    """Return an ``httpx.Client`` for the session's server.

    *options* are those of ``httpx.Client``, except those that the session sets. Proxies of the environment are
    used only with ``trust_env=True``, and a proxy-url takes precedence over them.
    """
    client: httpx.Client = _ADAPTER.make_client(session, options)
    return client


def make_async_client(session: ClusterAccess, **options: Any) -> httpx.AsyncClient:
    """Return the same as ``make_client`` for asyncio. The plugin is not run before the first request."""
    client: httpx.AsyncClient = _ADAPTER.make_async_client(session, options)
    return client
