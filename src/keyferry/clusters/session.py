"""A session for a kubeconfig context: access to the cluster, with a method for each HTTP library.

It is loaded by kubectl's rules, and refused if another user could have written the file that decides what is run or
who gets a credential.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from keyferry._core.clock import check_timeout
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.auth.authenticator import Authenticator, shared_authenticator
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, resolve
from keyferry.clusters.kubeconfig.trust import check_trust
from keyferry.clusters.options import ClusterOptions
from keyferry.invoke.kuberc import load_kuberc
from keyferry.invoke.policy import PluginPolicy
from keyferry.invoke.run import Limits, Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import aiohttp
    import httpx
    import httpx2
    import kubernetes
    import requests

    from keyferry.clusters.api_calls import ClusterIdentity


class ClusterSession(ClusterAccess):
    """A session for a kubeconfig context. It can be shared between threads and event loops."""

    def __repr__(self) -> str:
        config = self.config
        where = f"{hide_in_url(config.server)}, namespace {config.namespace!r}"
        who = (
            f"user {config.user_name!r}, by {_describe_user(config)}"
            if config.user_name
            else _describe_user(config)
        )
        return f"<ClusterSession for {where}: {who}>"

    def whoami(self, *, timeout_seconds: float = 60.0) -> ClusterIdentity:
        """Return as whom the server knows the user, by a SelfSubjectReview (Kubernetes 1.27).

        Raise ClusterAuthError if the server refuses it, cannot be reached, or the credential cannot be obtained.
        """
        from keyferry.clusters.api_calls import identify_user

        return identify_user(self, timeout_seconds=timeout_seconds)

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

    def httpx2_auth(self) -> httpx2.Auth:
        """Return an ``Auth`` for ``httpx2.Client(auth=...)`` and ``AsyncClient``; requires ``keyferry[httpx2]``."""
        from keyferry.clusters.adapters.httpx2 import ClusterAuth

        return ClusterAuth(self)

    def httpx2_client(self, **options: Any) -> httpx2.Client:
        """Return the same as ``httpx_client`` for httpx2, the successor of httpx."""
        from keyferry.clusters.adapters.httpx2 import make_client

        return make_client(self, **options)

    def httpx2_async_client(self, **options: Any) -> httpx2.AsyncClient:
        """Return the same as ``httpx2_client`` for asyncio."""
        from keyferry.clusters.adapters.httpx2 import make_async_client

        return make_async_client(self, **options)

    def mount_requests(self, session: requests.Session) -> requests.Session:
        """Make *session* send requests for this cluster's URLs as its user; requires ``keyferry[requests]``."""
        from keyferry.clusters.adapters.requests import mount

        return mount(self, session)

    def aiohttp_session(self, **options: Any) -> aiohttp.ClientSession:
        """Return an ``aiohttp.ClientSession`` for this cluster; requires ``keyferry[aiohttp]``."""
        from keyferry.clusters.adapters.aiohttp import make_client_session

        return make_client_session(self, **options)

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


def _describe_user(config: ClientConfig) -> str:
    """Return how the user is authenticated, without any secret."""
    if config.bearer_token or config.token_file:
        return "token"
    if config.username:
        return "user name and password"
    if config.client_certificate_data:
        return "client certificate"
    return f"exec plugin {config.exec.command!r}" if config.exec is not None else "no credential"


class PluginSettings(Value):
    """How the plugin of a session is run. Sessions share a credential only if all of these are equal.

    With *stderr_tail*, the standard error of a plugin that may not prompt is kept there, too, if the plugin succeeds.
    """

    policy: PluginPolicy = PluginPolicy()
    timeout_seconds: float = 60.0
    stdin_unavailable: bool = False
    backs_off: bool = True
    stderr_tail: Tail | None = None


def make_session(
    config: ClientConfig, settings: PluginSettings = PluginSettings(), *, retries: bool = True
) -> ClusterSession:
    """Return a session for a resolved context.

    Raises ConfigError or PolicyError for a configuration that client-go rejects before the first request.
    """
    check_transport(config)
    exec_config = config.exec
    if exec_config is None or not config.uses_plugin:
        return ClusterSession(config, retries=retries)

    def make() -> Authenticator:
        runner = ExecRunner(
            exec_config,
            config.exec_cluster,
            policy=settings.policy,
            stdin_unavailable=settings.stdin_unavailable,
            stderr_tail=settings.stderr_tail,
            limits=Limits(timeout_seconds=settings.timeout_seconds),
        )
        return Authenticator(runner.credential, server=config.server, backs_off=settings.backs_off)

    # The key contains everything that determines the program and its input; user names are not unique.
    key = (exec_config, config.exec_cluster, settings)
    return ClusterSession(config, shared_authenticator(key, make), retries=retries)


def load_cluster(
    context: str | None = None,
    *,
    kubeconfig: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    user: str | None = None,
    namespace: str | None = None,
    server: str | None = None,
    tls_server_name: str | None = None,
    certificate_authority: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    token: str | None = None,
    impersonate: str | None = None,
    impersonate_groups: Iterable[str] = (),
    impersonate_uid: str | None = None,
    proxy_url: str | None = None,
    request_timeout_seconds: float | None = None,
    policy: PluginPolicy | None = None,
    trust: bool = False,
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """Return a session for a context, by kubectl's rules: *kubeconfig*, else KUBECONFIG, else ~/.kube/config.

    Without *context*, the current context of the kubeconfig is used. *cluster*, *user* and *namespace* replace those of
    the context; *server*, *tls_server_name*, *certificate_authority*, *insecure* and *proxy_url* those of the cluster,
    as kubectl's flags do: without a *tls_server_name*, another *server* has none. A *token* takes precedence over the
    user's plugin, which is not run. Requests are made as the user *impersonate*, in *impersonate_groups*.
    *request_timeout_seconds* limits each request that keyferry itself sends; 0 means no limit.

    *policy* determines which plugins may run; by default it is read from kuberc, as kubectl does. Unless *trust* is
    set, a kubeconfig that another user could have written is refused if it names a plugin, a credential file, or the
    server that would receive a credential of another file or the *token*.
    *timeout_seconds* limits each run of a plugin that does not prompt the user. With *stdin_unavailable*, no plugin may
    prompt. Without *retries*, a request that got a 401 response is not sent again with a new credential. Without
    *backs_off*, a plugin that keeps failing is run again for every request, without a pause.

    Raises ConfigError, PolicyError, ClusterAuthError if a credential is needed and cannot be obtained, and ValueError
    if *timeout_seconds* is not positive.
    """
    options = ClusterOptions(
        context=context or "",
        kubeconfig=None if kubeconfig is None else os.fspath(kubeconfig),
        cluster=cluster or "",
        user=user or "",
        namespace=namespace or "",
        server=server or "",
        tls_server_name=tls_server_name or "",
        certificate_authority=os.fspath(certificate_authority or ""),
        insecure=insecure,
        token=token or "",
        impersonate=impersonate or "",
        impersonate_groups=tuple(impersonate_groups),
        impersonate_uid=impersonate_uid or "",
        proxy_url=proxy_url or "",
        request_timeout_seconds=request_timeout_seconds,
        trust=trust,
    )
    return open_cluster(
        options,
        policy=policy,
        timeout_seconds=timeout_seconds,
        stdin_unavailable=stdin_unavailable,
        retries=retries,
        backs_off=backs_off,
    )


def open_cluster(
    options: ClusterOptions,
    *,
    policy: PluginPolicy | None = None,
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """Return the session that ``load_cluster`` returns for *options*."""
    check_timeout(timeout_seconds)
    config = resolve(load_kubeconfig(options.kubeconfig), options)
    chosen = load_kuberc().policy if policy is None else policy
    check_trust(config, trust=options.trust)
    settings = PluginSettings(
        policy=chosen,
        timeout_seconds=timeout_seconds,
        stdin_unavailable=stdin_unavailable,
        backs_off=backs_off,
    )
    return make_session(config, settings, retries=retries)
