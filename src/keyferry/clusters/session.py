"""A session for a kubeconfig context: access to the cluster, with a method for each HTTP library.

It is loaded by kubectl's rules, and refused if another user could have written the file that decides what is run or
who gets a credential.
"""

from __future__ import annotations

import os

from keyferry._core.clock import check_timeout
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.auth.authenticator import Authenticator, shared_authenticator
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.choose import Overrides
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, resolve
from keyferry.clusters.kubeconfig.trust import UNJUDGED
from keyferry.errors import PolicyError
from keyferry.invoke.kuberc import load_kuberc
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
        who = (
            f"user {config.user_name!r}, by {_describe_user(config)}"
            if config.user_name
            else _describe_user(config)
        )
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


def _describe_user(config: ClientConfig) -> str:
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


def load_cluster(
    context: str | None = None,
    *,
    kubeconfig: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    user: str | None = None,
    namespace: str | None = None,
    proxy_url: str | None = None,
    policy: PluginPolicy | None = None,
    trust: bool = False,
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """Return a session for a context, by kubectl's rules: *kubeconfig*, else KUBECONFIG, else ~/.kube/config.

    *proxy_url* replaces the cluster's proxy-url. *policy* determines which plugins may run; by default it is read
    from kuberc, as kubectl does. Unless *trust* is set, a kubeconfig that another user could have written is refused
    if it names a plugin, a credential file, or the server that would receive a credential of another file.
    *timeout_seconds* limits each run of a plugin that does not prompt the user. Raises ConfigError, PolicyError,
    ClusterAuthError if a credential is needed and cannot be obtained, and ValueError if *timeout_seconds* is not
    positive.
    """
    check_timeout(timeout_seconds)
    explicit = None if kubeconfig is None else os.fspath(kubeconfig)
    loaded = load_kubeconfig(explicit)
    overrides = Overrides(
        context=context or "",
        cluster=cluster or "",
        user=user or "",
        namespace=namespace or "",
        proxy_url=proxy_url or "",
    )
    config = resolve(loaded, overrides)
    chosen = load_kuberc().policy if policy is None else policy
    check_trust(config, trust=trust)
    return make_session(
        config,
        policy=chosen,
        timeout_seconds=timeout_seconds,
        stdin_unavailable=stdin_unavailable,
        retries=retries,
        backs_off=backs_off,
    )


class Distrust(Value):
    """A setting, *what*, in a *file* that is not trusted; *why* states who else could have written the file.

    *consequence* is what kubectl does with the setting.
    """

    file: str
    why: str
    what: str
    consequence: str


def check_trust(config: ClientConfig, *, trust: bool) -> None:
    """Raise PolicyError if *config* depends on a file that another user could have written, unless *trust*."""
    found = None if trust else find_distrust(config)
    if found is not None:
        raise PolicyError(
            f"{found.what} is named by {found.file}, which is not trusted: {found.why}; expected that "
            "only you or root can write the file and its folders; check it with 'keyferry lint "
            f"{found.file}', then use chown or chmod go-w, or pass --trust (trust=True in Python)"
        )


def find_distrust(config: ClientConfig) -> Distrust | None:
    """Return the first setting of *config* that comes from a file another user could have written; None if none.

    A plugin named by such a file would run as this user, and a credential file that it names may be readable by
    this user only. A context or cluster in such a file would send the credential of another file to a server,
    proxy or authority of the writer's choice. A token in the file itself is allowed: its writer knows it already.
    """
    why = _why_untrusted(config, config.user_origin)
    if why and config.exec is not None and uses_plugin(config):
        what = f"program {config.exec.command!r}"
        return Distrust(file=config.user_origin, why=why, what=what, consequence="runs it")
    if why and config.credential_files:
        names = " and ".join(map(repr, config.credential_files))
        return Distrust(
            file=config.user_origin, why=why, what=f"credential file {names}", consequence="reads it"
        )
    return _find_diversion(config) if has_credential(config) else None


def _find_diversion(config: ClientConfig) -> Distrust | None:
    """Return the setting of a file that is not trusted which determines where another file's credential is sent."""
    server = hide_in_url(config.server)
    whose = f"would get the credential of user {config.user_name!r} of {config.user_origin},"
    for origin, what in (
        (config.cluster_origin, f"server {server!r}, which {whose}"),
        (config.context_origin, f"context {config.context!r}, by which {server!r} {whose}"),
    ):
        why = _why_untrusted(config, origin)
        if why and origin != config.user_origin:
            return Distrust(file=origin, why=why, what=what, consequence="sends it there")
    return None


def _why_untrusted(config: ClientConfig, origin: str) -> str:
    """Return who else could have written the file *origin*; empty for settings that the caller passed."""
    if not origin:
        return ""
    judged = {file.path: file.untrusted for file in config.files}
    return judged.get(origin, UNJUDGED)
