"""A session for a kubeconfig context: access to the cluster, with a method for each HTTP library."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_url
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.auth.authenticator import Authenticator, shared_authenticator
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport
from keyferry.invoke.policy import PluginPolicy
from keyferry.invoke.run import Limits, Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import aiohttp
    import httpx
    import kubernetes
    import requests


class ClusterSession(ClusterAccess):
    """A session for a kubeconfig context. It can be shared between threads and event loops."""

    def __repr__(self) -> str:
        config = self.config
        where = f"{hide_in_url(config.server)}, namespace {config.namespace!r}"
        who = f"user {config.user_name!r}, by {_way_of(config)}" if config.user_name else _way_of(config)
        return f"<ClusterSession for {where}: {who}>"

    def httpx_auth(self) -> httpx.Auth:
        """Return an ``Auth`` for ``httpx.Client(auth=...)`` and ``AsyncClient``; requires ``keyferry[httpx]``."""
        from keyferry.clusters.adapters.httpx import ClusterAuth

        return ClusterAuth(self)

    def httpx_client(self, **options: Any) -> httpx.Client:
        """Return an ``httpx.Client`` for this cluster; a connection is not reused after its certificate changes."""
        from keyferry.clusters.adapters.httpx import make_client

        return make_client(self, **options)

    def httpx_async_client(self, **options: Any) -> httpx.AsyncClient:
        """Return the same as ``httpx_client`` for asyncio."""
        from keyferry.clusters.adapters.httpx import make_async_client

        return make_async_client(self, **options)

    def mount_requests(self, session: requests.Session) -> requests.Session:
        """Make *session* send requests for this cluster's URLs as its user; requires ``keyferry[requests]``."""
        from keyferry.clusters.adapters.requests import mount

        return mount(self, session)

    def aiohttp_session(self, **options: Any) -> aiohttp.ClientSession:
        """Return an ``aiohttp.ClientSession`` for this cluster; requires ``keyferry[aiohttp]``."""
        from keyferry.clusters.adapters.aiohttp import make_session as make

        return make(self, **options)

    def kubernetes_api_client(self) -> kubernetes.client.ApiClient:
        """Return an ``ApiClient`` of the official client for this cluster; requires ``keyferry[kubernetes]``."""
        from keyferry.clusters.adapters.kubernetes import make_api_client

        return make_api_client(self)

    def kubernetes_configuration(self) -> kubernetes.client.Configuration:
        """Return a ``Configuration`` of the official client that renews its token.

        It does not support client certificates or impersonation. Requires ``keyferry[kubernetes]``.
        """
        from keyferry.clusters.adapters.kubernetes import make_configuration

        return make_configuration(self)


def uses_plugin(config: ClientConfig) -> bool:
    """Return whether the exec plugin is used: a token, user name or certificate takes precedence over it."""
    return config.exec is not None and not _has_static(config)


def has_credential(config: ClientConfig) -> bool:
    """Return whether requests carry a credential of any kind."""
    return config.exec is not None or _has_static(config)


def _has_static(config: ClientConfig) -> bool:
    return bool(config.bearer_token or config.token_file or config.username or config.client_certificate_data)


def _way_of(config: ClientConfig) -> str:
    """Return how the user is authenticated, without any secret."""
    if config.bearer_token or config.token_file:
        return "token"
    if config.username:
        return "user name and password"
    if config.client_certificate_data:
        return "client certificate"
    return f"exec plugin {config.exec.command!r}" if config.exec is not None else "no credential"


def make_session(
    config: ClientConfig,
    *,
    policy: PluginPolicy = PluginPolicy(),
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
    stderr_tail: Tail | None = None,
) -> ClusterSession:
    """Return a session for a resolved context.

    With *stderr_tail*, the standard error of a plugin that may not prompt is kept there, too, if the plugin succeeds.
    Raises ConfigError or PolicyError for a configuration that client-go rejects before the first request.
    """
    check_transport(config)
    exec_config = config.exec
    if exec_config is None or not uses_plugin(config):
        return ClusterSession(config, retries=retries)

    def make() -> Authenticator:
        runner = ExecRunner(
            exec_config,
            config.exec_cluster,
            policy=policy,
            stdin_unavailable=stdin_unavailable,
            stderr_tail=stderr_tail,
            limits=Limits(timeout_seconds=timeout_seconds),
        )
        return Authenticator(runner.credential, server=config.server, backs_off=backs_off)

    # The key contains everything that determines the program and its input; user names are not unique.
    key = (
        exec_config,
        config.exec_cluster,
        policy,
        stdin_unavailable,
        timeout_seconds,
        backs_off,
        stderr_tail,
    )
    return ClusterSession(config, shared_authenticator(key, make), retries=retries)
