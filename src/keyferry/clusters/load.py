"""Load a session from a kubeconfig by kubectl's rules, and check who could have written the file."""

from __future__ import annotations

import os

from keyferry._core.clock import check_timeout
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig, Overrides, resolve
from keyferry.clusters.kubeconfig.trust import UNJUDGED
from keyferry.clusters.session import ClusterSession, has_credential, make_session, uses_plugin
from keyferry.errors import PolicyError
from keyferry.invoke.kuberc import load_kuberc
from keyferry.invoke.policy import PluginPolicy


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
        return Distrust(config.user_origin, why, f"program {config.exec.command!r}", "runs it")
    if why and config.credential_files:
        names = " and ".join(map(repr, config.credential_files))
        return Distrust(config.user_origin, why, f"credential file {names}", "reads it")
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
            return Distrust(origin, why, what, "sends it there")
    return None


def _why_untrusted(config: ClientConfig, origin: str) -> str:
    """Return who else could have written the file *origin*; empty for settings that the caller passed."""
    if not origin:
        return ""
    judged = {file.path: file.untrusted for file in config.files}
    return judged.get(origin, UNJUDGED)
