"""A context of a kubeconfig as programs use it: access to the cluster, with a door for each HTTP library."""

from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.auth.authenticator import Authenticator, shared_authenticator
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport
from keyferry.invoke.policy import PluginPolicy
from keyferry.invoke.process import Limits

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Any

    import aiohttp
    import httpx
    import kubernetes
    import requests


class ClusterSession(ClusterAccess):
    """A context of a kubeconfig, ready to be used; safe to share between threads and event loops."""

    def httpx_auth(self) -> "httpx.Auth":
        """For ``httpx.Client(auth=...)`` and ``AsyncClient``; needs ``keyferry[httpx]``."""
        from keyferry.clusters.adapters.httpx import ClusterAuth

        return ClusterAuth(self)

    def httpx_client(self, **options: "Any") -> "httpx.Client":
        """A ready client for this cluster; connections end with the certificate they were made with."""
        from keyferry.clusters.adapters.httpx import make_client

        return make_client(self, **options)

    def httpx_async_client(self, **options: "Any") -> "httpx.AsyncClient":
        """As ``httpx_client``, for asyncio."""
        from keyferry.clusters.adapters.httpx import make_async_client

        return make_async_client(self, **options)

    def mount_requests(self, session: "requests.Session") -> "requests.Session":
        """Let a ``requests.Session`` reach this cluster's URLs as its user; needs ``keyferry[requests]``."""
        from keyferry.clusters.adapters.requests import mount

        return mount(self, session)

    def aiohttp_session(self, **options: "Any") -> "aiohttp.ClientSession":
        """A ready ``aiohttp.ClientSession`` for this cluster; needs ``keyferry[aiohttp]``."""
        from keyferry.clusters.adapters.aiohttp import make_session as make

        return make(self, **options)

    def kubernetes_api_client(self) -> "kubernetes.client.ApiClient":
        """An ``ApiClient`` of the official client for this cluster; needs ``keyferry[kubernetes]``."""
        from keyferry.clusters.adapters.kubernetes import make_api_client

        return make_api_client(self)

    def kubernetes_configuration(self) -> "kubernetes.client.Configuration":
        """A ``Configuration`` of the official client whose token refreshes; it can do no client certificates."""
        from keyferry.clusters.adapters.kubernetes import make_configuration

        return make_configuration(self)


def uses_plugin(config: ClientConfig) -> bool:
    """Tell whether the exec section counts: a token, a user name or a certificate beside it goes before it."""
    return config.exec is not None and not _has_static(config)


def has_credential(config: ClientConfig) -> bool:
    """Tell whether requests carry a credential, whatever it is."""
    return config.exec is not None or _has_static(config)


def _has_static(config: ClientConfig) -> bool:
    return bool(config.bearer_token or config.token_file or config.username or config.client_certificate_data)


def make_session(
    config: ClientConfig,
    *,
    policy: PluginPolicy = PluginPolicy(),
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """A session for a resolved context. Raises ConfigError or PolicyError for what client-go refuses outright."""
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
            limits=Limits(timeout_seconds=timeout_seconds),
        )
        return Authenticator(runner.credential, server=config.server, backs_off=backs_off)

    # Everything that decides what is run and what it is told; never the user's name alone.
    key = (exec_config, config.exec_cluster, policy, stdin_unavailable, timeout_seconds, backs_off)
    return ClusterSession(config, shared_authenticator(key, make), retries=retries)
