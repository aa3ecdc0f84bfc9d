"""An exec plugin's side: read KUBERNETES_EXEC_INFO, with client-go's own errors, and make the status of a response."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value, replace
from keyferry._net.url import UrlSyntaxError, go_words, read_url
from keyferry.api.clientauthentication.v1 import API_VERSIONS, ClusterInfo, ExecCredentialStatus
from keyferry.api.meta import format_instant
from keyferry.clusters.auth.credential import Refusal, decode
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import ClusterSession
from keyferry.errors import EnvironmentProblem


class ExecInfo(Value):
    """The content of KUBERNETES_EXEC_INFO.

    The proxy URL is in Go's normalized form. *config* is JSON text, None if it is not set. *status* is not
    checked; clients do not send it.
    """

    api_version: str
    interactive: bool
    cluster: ClusterInfo
    status: ExecCredentialStatus | None = None

    @property
    def config(self) -> str | None:
        """The plugin's own config for this cluster, as JSON text."""
        return self.cluster.config

    def session(self) -> ClusterSession:
        """Return an anonymous session, without a credential, for the cluster that the plugin was run for."""
        cluster = self.cluster
        return ClusterSession(
            ClientConfig(
                server=cluster.server,
                tls_server_name=cluster.tls_server_name,
                insecure=cluster.insecure_skip_tls_verify,
                ca_data=cluster.certificate_authority_data,
                proxy_url=cluster.proxy_url,
                disable_compression=cluster.disable_compression,
            )
        )


def load_exec_info(environ: Mapping[str, str] | None = None) -> ExecInfo:
    """Read KUBERNETES_EXEC_INFO from *environ*, by default ``os.environ``. Raises EnvironmentProblem."""
    text = (os.environ if environ is None else environ).get(EXEC_INFO, "")
    if not text:
        message = f"{EXEC_INFO} is not set, expected a Kubernetes client to run this plugin and set it"
        raise EnvironmentProblem(message, f"{EXEC_INFO} env var is unset or empty")
    return read_exec_info(text.encode("utf-8", "surrogateescape"))


def read_exec_info(data: bytes) -> ExecInfo:
    """Parse the value of KUBERNETES_EXEC_INFO. Raises EnvironmentProblem."""
    try:
        api_version, credential = decode(data, default_kind=False, quoting=True)
    except Refusal as refusal:
        stage = "" if refusal.is_decoded else "decode: "
        failure = EnvironmentProblem(f"{EXEC_INFO}: {refusal.message}", stage + refusal.kubernetes_text)
    else:
        if credential.spec.cluster is None:
            message = f"{EXEC_INFO} contains no cluster; set provideClusterInfo: true in the kubeconfig"
            raise EnvironmentProblem(message, "ExecCredential does not contain cluster information")
        cluster = _with_proxy(credential.spec.cluster)
        return ExecInfo(
            api_version=api_version,
            interactive=credential.spec.interactive,
            cluster=cluster,
            status=credential.status,
        )
    # Raised outside the except clause, because the caught exception may hold the document.
    raise failure


def _with_proxy(cluster: ClusterInfo) -> ClusterInfo:
    """Return *cluster* with its proxy URL in Go's normalized form."""
    if not cluster.proxy_url:
        return cluster
    try:
        return replace(cluster, proxy_url=str(read_url(cluster.proxy_url)))
    except UrlSyntaxError as error:
        reason = go_words(cluster.proxy_url, error)
    # Raised outside the except clause, because the caught exception may hold a password.
    text = f"cannot create rest.Config: cannot parse proxy URL: {reason}"
    raise EnvironmentProblem(f"{EXEC_INFO}: the proxy {hide_in_url(cluster.proxy_url)!r} is not a URL", text)


def requested_version() -> str:
    """Return the version of ExecCredential that the client of this plugin requests, v1 if no client runs it.

    Raises EnvironmentProblem.
    """
    text = os.environ.get(EXEC_INFO, "")
    if not text:
        return API_VERSIONS[0]
    try:
        return decode(text.encode("utf-8", "surrogateescape"), default_kind=False)[0]
    except Refusal as refusal:
        problem = refusal.message
    raise EnvironmentProblem(f"{EXEC_INFO}: {problem}")


def credential_status(session: ClusterSession) -> dict[str, str]:
    """Return the session's credential as the status of an ExecCredential. Raises EnvironmentProblem if it has none."""
    config, grant = session.config, session.grant()
    authorization = dict(grant.headers).get("Authorization", "")
    if authorization.startswith("Basic "):
        raise EnvironmentProblem(
            f"user {config.user_name!r} has basic auth, which an ExecCredential cannot contain"
        )
    certificate = config.client_certificate_data.decode("utf-8", "surrogateescape")
    key = config.client_key_data.decode("utf-8", "surrogateescape")
    expiry = ""
    if grant.credential is not None:
        certificate, key = grant.credential.certificate_pem, grant.credential.key_pem
        expiry = format_instant(grant.credential.expires_ns) if grant.credential.expires_ns else ""
    status = {
        "expirationTimestamp": expiry,
        "token": authorization.removeprefix("Bearer "),
        "clientCertificateData": certificate,
        "clientKeyData": key,
    }
    if not (status["token"] or certificate):
        raise EnvironmentProblem(_why_nothing(session))
    return {name: value for name, value in status.items() if value}


def _why_nothing(session: ClusterSession) -> str:
    who = f"user {session.config.user_name!r} has no credential"
    if not session.server.startswith("https://"):
        return f"{who}: the server {hide_in_url(session.server)!r} is not https, and kubectl then ignores the user"
    return f"{who}; requests to the server are anonymous"
