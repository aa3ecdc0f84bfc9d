"""Choose the context, cluster and user, with overrides from the command line."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.gotext import quote
from keyferry._core.values import Value, replace
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, Kubeconfig
from keyferry.clusters.options import Overrides
from keyferry.errors import KubeconfigError, Problem


class Choice(Value):
    """The chosen context, cluster and user with overrides applied, and their names."""

    context_name: str
    context: Context
    user_name: str
    user: AuthInfo
    cluster_name: str
    cluster: Cluster


def choose(config: Kubeconfig, overrides: Overrides) -> Choice:
    """Return the context, cluster and user that *overrides* and the current context name.

    Raises ConfigError if a name in the overrides does not exist. An entry that is named in a file and does not
    exist is empty.
    """
    context_name = overrides.context or config.current_context
    context = _override_context(config.contexts.get(context_name, Context()), overrides)
    # In this order, so that the same one of several unknown names is reported as by client-go.
    _require(overrides.user, "auth info", "user", config.users)
    _require(overrides.context, "context", "context", config.contexts)
    _require(overrides.cluster, "cluster", "cluster", config.clusters)
    return Choice(
        context_name=context_name,
        context=context,
        user_name=context.user,
        user=_override_user(config.users.get(context.user, AuthInfo()), overrides),
        cluster_name=context.cluster,
        cluster=_override_cluster(config.clusters.get(context.cluster, Cluster()), overrides),
    )


def _require(name: str, go_kind: str, kind: str, known: Mapping[str, object]) -> None:
    if name and name not in known:
        names = ", ".join(map(repr, known)) or "none"
        message = f"{kind} {name!r} does not exist (existing: {names})"
        text = f"{go_kind} {quote(name)} does not exist"
        raise KubeconfigError((Problem("", message, kubernetes_text=text),))


def _override_context(context: Context, overrides: Overrides) -> Context:
    return replace(
        context,
        cluster=overrides.cluster or context.cluster,
        user=overrides.user or context.user,
        namespace=overrides.namespace or context.namespace,
    )


def _override_user(user: AuthInfo, overrides: Overrides) -> AuthInfo:
    # A file given on the command line replaces data in the kubeconfig, too.
    certificate_data = b"" if overrides.client_certificate else user.client_certificate_data
    return replace(
        user,
        client_certificate=overrides.client_certificate or user.client_certificate,
        client_certificate_data=certificate_data,
        client_key=overrides.client_key or user.client_key,
        client_key_data=b"" if overrides.client_key else user.client_key_data,
        token=overrides.token or user.token,
        username=overrides.username or user.username,
        password=overrides.password or user.password,
        impersonate=overrides.impersonate or user.impersonate,
        impersonate_uid=overrides.impersonate_uid or user.impersonate_uid,
        impersonate_groups=overrides.impersonate_groups or user.impersonate_groups,
    )


def _override_cluster(cluster: Cluster, overrides: Overrides) -> Cluster:
    if overrides.insecure or overrides.certificate_authority:
        cluster = replace(
            cluster,
            insecure_skip_tls_verify=overrides.insecure,
            certificate_authority=overrides.certificate_authority,
            certificate_authority_data=b"",
        )
    # The configured tls-server-name applies only to the configured server.
    tls_server_name = "" if overrides.server else cluster.tls_server_name
    return replace(
        cluster,
        server=overrides.server or cluster.server,
        tls_server_name=overrides.tls_server_name or tls_server_name,
        proxy_url=overrides.proxy_url or cluster.proxy_url,
        disable_compression=overrides.disable_compression or cluster.disable_compression,
    )
