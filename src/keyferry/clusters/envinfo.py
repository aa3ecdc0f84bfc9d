"""For plugins: read KUBERNETES_EXEC_INFO back, with the errors of client-go's own helper."""

import os
import re
from collections.abc import Mapping

from keyferry._core.gotext import quote
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value
from keyferry.api.clientauthentication.v1 import ClusterInfo, ExecCredentialStatus
from keyferry.clusters.auth.credential import Refusal, decode
from keyferry.clusters.auth.execinfo import EXEC_INFO
from keyferry.clusters.url import parse_url
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession

__all__ = ["ExecInfo", "load_exec_info", "read_exec_info"]

_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_FORBIDDEN = re.compile(r"""[\x00-\x20#/?@\\^`{|}\x7f]|%(?!25|[89A-Fa-f][0-9A-Fa-f]).{0,2}""", re.DOTALL)
_USER_INFO = re.compile(r"[-._:~!$&'()*+,;=%@0-9A-Za-z]*")
_SCHEME = re.compile(r"[A-Za-z][-+.0-9A-Za-z]*:")


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
        stage = "" if refusal.kubernetes_text.startswith("invalid group/kind") else "decode: "
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
    if not cluster.proxy_url:
        return cluster
    url = parse_url(cluster.proxy_url)
    if url is None:
        shown = hide_user_info(cluster.proxy_url)
        text = f"cannot create rest.Config: cannot parse proxy URL: {_why_refused(cluster.proxy_url)}"
        raise EnvironmentProblem(f"{EXEC_INFO}: the proxy {shown!r} is not a URL", text)
    return ClusterInfo(
        server=cluster.server,
        tls_server_name=cluster.tls_server_name,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        certificate_authority_data=cluster.certificate_authority_data,
        proxy_url=str(url),
        disable_compression=cluster.disable_compression,
        config=cluster.config,
    )


def _why_refused(text: str) -> str:
    """Go's words for a URL that does not parse."""
    url, _, fragment = text.partition("#")
    reason = _reason(url)
    if not reason and (bad := _ESCAPE.search(fragment)):
        url, reason = text, f"invalid URL escape {quote(bad[0])}"
    return f"parse {quote(url)}: {reason or 'invalid URL'}"


def _reason(url: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", url):
        return "net/url: invalid control character in URL"
    if url.startswith(":"):
        return "missing protocol scheme"
    scheme = _SCHEME.match(url)
    rest = url[scheme.end() if scheme else 0 :].partition("?")[0]
    if not scheme and ":" in rest.partition("/")[0]:
        return "first path segment in URL cannot contain colon"
    path = rest
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        path = slash + tail
        if reason := _authority_reason(authority):
            return reason
    bad = _ESCAPE.search(path)
    return f"invalid URL escape {quote(bad[0])}" if bad else ""


def _authority_reason(authority: str) -> str:
    user_info, _, host = authority.rpartition("@")
    if reason := _literal_reason(host) if "[" in host else _name_reason(host):
        return reason
    if not _USER_INFO.fullmatch(user_info):
        return "net/url: invalid userinfo"
    bad = _ESCAPE.search(user_info)
    return f"invalid URL escape {quote(bad[0])}" if bad else ""


def _name_reason(host: str) -> str:
    name, colon, port = host.partition(":")
    if colon and not re.fullmatch("[0-9]*", port):
        return f"invalid port {quote(colon + port)} after host"
    bad = _FORBIDDEN.search(name)
    if bad is None:
        return ""
    if bad[0].startswith("%"):
        return f"invalid URL escape {quote(bad[0])}"
    return f"invalid character {quote(bad[0])} in host name"


def _literal_reason(host: str) -> str:
    if host.rindex("["):
        return "invalid IP-literal"
    literal, closing, port = host[1:].rpartition("]")
    if not closing:
        return "missing ']' in host"
    if not re.fullmatch("(?::[0-9]*)?", port):
        return f"invalid port {quote(port)} after host"
    return (
        ""
        if parse_url(f"http://[{literal}]")
        else f"invalid host: ParseAddr({quote(literal)}): unable to parse IP"
    )
