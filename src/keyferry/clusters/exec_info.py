"""For plugins: read KUBERNETES_EXEC_INFO back, with the errors of client-go's own helper."""

import os
from collections.abc import Mapping

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry._net.url import UrlSyntaxError, go_words, read_url
from keyferry.api.clientauthentication.v1 import ClusterInfo, ExecCredentialStatus
from keyferry.clusters.auth.credential import Refusal, decode
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession

__all__ = ["ExecInfo", "load_exec_info", "read_exec_info"]


class ExecInfo(Value):
    """What a plugin is told. The proxy is given as Go spells it; *config* is JSON text, None without one.

    *status* is kept as it was found; clients send none.
    """

    api_version: str
    interactive: bool
    cluster: ClusterInfo
    status: ExecCredentialStatus | None = None

    @property
    def config(self) -> str | None:
        """The plugin's own config for this cluster, as JSON text."""
        return self.cluster.config

    def session(self) -> "ClusterSession":
        """A session for the cluster that the plugin was run for, as nobody: without any credential."""
        from keyferry.clusters.kubeconfig.resolve import ClientConfig
        from keyferry.clusters.session import ClusterSession

        cluster = self.cluster
        return ClusterSession(
            ClientConfig(
                cluster.server,
                tls_server_name=cluster.tls_server_name,
                insecure=cluster.insecure_skip_tls_verify,
                ca_data=cluster.certificate_authority_data,
                proxy_url=cluster.proxy_url,
                disable_compression=cluster.disable_compression,
            )
        )


def load_exec_info(environ: Mapping[str, str] | None = None) -> ExecInfo:
    """Read KUBERNETES_EXEC_INFO from *environ*, this process's by default; raises EnvironmentProblem."""
    text = (os.environ if environ is None else environ).get(EXEC_INFO, "")
    if not text:
        message = f"{EXEC_INFO} is not set: this plugin is meant to be run by a Kubernetes client"
        raise EnvironmentProblem(message, f"{EXEC_INFO} env var is unset or empty")
    return read_exec_info(text.encode("utf-8", "surrogateescape"))


def read_exec_info(data: bytes) -> ExecInfo:
    """Read what KUBERNETES_EXEC_INFO holds; raises EnvironmentProblem."""
    try:
        api_version, credential = decode(data, default_kind=False, quoting=True)
    except Refusal as refusal:
        stage = "" if refusal.is_decoded else "decode: "
        failure = EnvironmentProblem(f"{EXEC_INFO}: {refusal.message}", stage + refusal.kubernetes_text)
    else:
        if credential.cluster is None:
            message = f"{EXEC_INFO} says nothing of a cluster; set provideClusterInfo: true in the kubeconfig"
            raise EnvironmentProblem(message, "ExecCredential does not contain cluster information")
        cluster = _with_proxy(credential.cluster)
        return ExecInfo(api_version, credential.interactive, cluster, credential.status)
    # Raised out here on purpose: what was caught may hold the document.
    raise failure


def _with_proxy(cluster: ClusterInfo) -> ClusterInfo:
    """The cluster with its proxy as Go spells it."""
    if not cluster.proxy_url:
        return cluster
    try:
        return replace(cluster, proxy_url=str(read_url(cluster.proxy_url)))
    except UrlSyntaxError as error:
        reason = go_words(cluster.proxy_url, error)
    # Raised out here on purpose: what was caught may hold a password.
    text = f"cannot create rest.Config: cannot parse proxy URL: {reason}"
    raise EnvironmentProblem(
        f"{EXEC_INFO}: the proxy {hide_user_info(cluster.proxy_url)!r} is not a URL", text
    )
