"""From a kubeconfig to a session: the rules of kubectl, plus a look at where the file comes from."""

import os

from keyferry._core.clock import check_timeout
from keyferry._core.user_info import hide_user_info
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
    policy: PluginPolicy | None = None,
    trust: bool = False,
    timeout_seconds: float = 60.0,
    stdin_unavailable: bool = False,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """A session for a context, by kubectl's rules: *kubeconfig*, else KUBECONFIG, else ~/.kube/config.

    *policy* says which plugins may run; without one, kuberc's is taken, as kubectl does. A kubeconfig that
    somebody else could have written is refused if it names a plugin, a file with a credential, or the server
    for a credential of another file, unless it is to be *trust*-ed. Plugins that may not ask questions have
    *timeout_seconds*. Raises ConfigError, PolicyError or, when a credential is needed and cannot be had,
    ClusterAuthError; and ValueError for a time limit that leaves no time.
    """
    check_timeout(timeout_seconds)
    explicit = None if kubeconfig is None else os.fspath(kubeconfig)
    loaded = load_kubeconfig(explicit)
    overrides = Overrides(
        context=context or "", cluster=cluster or "", user=user or "", namespace=namespace or ""
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
    """What *file* names and must not, since somebody else could have written it, which is *why*.

    *consequence* is what kubectl does then, all the same.
    """

    file: str
    why: str
    what: str
    consequence: str


def check_trust(config: ClientConfig, *, trust: bool) -> None:
    """Raise PolicyError if *config* follows a file that somebody else could have written, unless *trust*."""
    found = None if trust else find_distrust(config)
    if found is not None:
        raise PolicyError(
            f"{found.what} is named by {found.file}, which is not to be trusted: {found.why}; expected a file "
            "and folders above it that only you or root can write; look at it, and at what 'keyferry lint "
            f"{found.file}' says, then chown it or chmod go-w, or say --trust (trust=True in Python)"
        )


def find_distrust(config: ClientConfig) -> Distrust | None:
    """What *config* would do because a file says so that somebody else could have written; None if nothing.

    A program of that file would run as this user, and a file that it names may be one that only this user can
    read. The credential of another file would go to the server that its context names, or to its own server,
    through its proxy, to whom its authority vouches for. A token that stands in the file itself is no secret
    from whoever wrote it.
    """
    why = _why_untrusted(config, config.user_origin)
    if why and config.exec is not None and uses_plugin(config):
        return Distrust(config.user_origin, why, f"program {config.exec.command!r}", "runs it")
    if why and config.credential_files:
        names = " and ".join(map(repr, config.credential_files))
        return Distrust(config.user_origin, why, f"credential file {names}", "reads it")
    return _find_diversion(config) if has_credential(config) else None


def _find_diversion(config: ClientConfig) -> Distrust | None:
    """What sends the credential of one file where another says, if that one is not to be trusted."""
    server = hide_user_info(config.server)
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
    """Who else could have written a file of *config*; what came from no file is the caller's own."""
    if not origin:
        return ""
    judged = {file.path: file.untrusted for file in config.files}
    return judged.get(origin, UNJUDGED)
