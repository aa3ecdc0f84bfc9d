"""From a kubeconfig to a session: the rules of kubectl, plus a look at where the file comes from."""

import os

from keyferry.clusters.kubeconfig import load_kubeconfig
from keyferry.clusters.resolve import ClientConfig, Overrides, resolve
from keyferry.clusters.session import ClusterSession, make_session, uses_plugin
from keyferry.clusters.trust import why_untrusted
from keyferry.errors import PolicyError
from keyferry.invoke.kuberc import load_kuberc
from keyferry.invoke.policy import PluginPolicy


def load_cluster(  # noqa: PLR0913 - one door, many settings, all but the first by keyword
    context: str | None = None,
    *,
    kubeconfig: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    user: str | None = None,
    namespace: str | None = None,
    policy: PluginPolicy | None = None,
    trust: bool = False,
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """A session for a context, by kubectl's rules: *kubeconfig*, else KUBECONFIG, else ~/.kube/config.

    *policy* says which plugins may run; without one, kuberc's is taken, as kubectl does. A kubeconfig that
    somebody else could have written is refused if it names a plugin, unless it is to be *trust*-ed or an
    allowlist names the program. Plugins that may not ask questions have *timeout_seconds*. Raises ConfigError,
    PolicyError or, when a credential is needed and cannot be had, ClusterAuthError.
    """
    explicit = None if kubeconfig is None else os.fspath(kubeconfig)
    loaded = load_kubeconfig(explicit)
    overrides = Overrides(
        context=context or "", cluster=cluster or "", user=user or "", namespace=namespace or ""
    )
    config = resolve(loaded, overrides)
    chosen = load_kuberc().policy if policy is None else policy
    check_trust(config, chosen, trust=trust)
    return make_session(
        config,
        policy=chosen,
        timeout_seconds=timeout_seconds,
        stdin_unavailable=stdin_unavailable,
        retries=retries,
        backs_off=backs_off,
    )


def check_trust(config: ClientConfig, policy: PluginPolicy, *, trust: bool) -> None:
    """Refuse a plugin named by a file that somebody else could have written."""
    if trust or config.exec is None or not uses_plugin(config) or policy.policy_type == "Allowlist":
        return
    why = why_untrusted(config.user_origin) if config.user_origin else ""
    if why:
        raise PolicyError(
            f"program {config.exec.command!r} is named by {config.user_origin}, which is not to be trusted: "
            f"{why}; look at the file, then say --trust, or allow the program in kuberc"
        )
