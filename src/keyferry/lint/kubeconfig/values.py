"""Values of clusters and users that client-go accepts but that are probably not intended."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator

from keyferry._core.user_info import hide_in_url
from keyferry._net.url import Url, parse_url
from keyferry.api.kubeconfig.v1 import SECTIONS, AuthInfo, Cluster, Kubeconfig
from keyferry.clusters.kubeconfig.files import KubeconfigFile
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.kubeconfig.validate import PROXY_SCHEMES
from keyferry.errors import Problem
from keyferry.lint.kubeconfig.exec import Suspicion, check_exec
from keyferry.lint.kubeconfig.fields import entry_indices
from keyferry.lint.secrets import is_placeholder

__all__ = ["check_values"]

# What kubectl writes in place of a key, and what others do; both happen to be base64.
_REDACTED = (b"DATA+OMITTED", b"REDACTED")
# Files that do not contain a token, but whose content would be sent to the server as one.
_NO_TOKEN = re.compile(
    r"/(?:proc|sys|dev|boot)/|/etc/(?:g?shadow|passwd|sudoers|ssh/|ssl/private/|security/|.*\.keytab)|"
    r".*/\.(?:ssh|gnupg|aws|azure|config/gcloud|docker|netrc|pgpass|git-credentials|vault-token|\w+_history)"
)


def check_values(file: KubeconfigFile, config: Kubeconfig) -> Iterator[Problem]:
    """Yield the problems of the clusters and users of *file* that are valid but probably not intended.

    *config* is the loaded file, with the folders at which its relative paths start.
    """
    if file.document is None:
        return
    indices = entry_indices(file, "clusters")
    for name, cluster in file.config.clusters.items():
        yield from _placed(file, "clusters", indices.get(name, 0), check_cluster(cluster))
    indices = entry_indices(file, "users")
    for name, user in file.config.users.items():
        anchored = config.users.get(name, user)
        found = (*check_user(user, anchored), *check_exec(user.exec, anchored.exec))
        yield from _placed(file, "users", indices.get(name, 0), found)


def _placed(file: KubeconfigFile, section: str, index: int, found: Iterable[Suspicion]) -> Iterator[Problem]:
    for at, code, message in found:
        yield file.problem((section, index, SECTIONS[section], *at), Problem("", message, code=code))


def check_cluster(cluster: Cluster) -> Iterator[Suspicion]:
    """Yield the suspicions about one cluster."""
    yield from _check_server(cluster.server)
    if cluster.insecure_skip_tls_verify:
        message = "any server is trusted and gets the credentials; set the cluster's certificate authority"
        yield ("insecure-skip-tls-verify",), "KF262", message
    proxy = parse_url(cluster.proxy_url) if cluster.proxy_url else None
    if proxy is not None and proxy.scheme in PROXY_SCHEMES:
        yield from _check_proxy(cluster.proxy_url, proxy)


def _check_server(server: str) -> Iterator[Suspicion]:
    if not server:
        return  # reported as a refusal
    url, shown = parse_url(server), hide_in_url(server)
    if url is not None and url.scheme == "http":
        message = (
            f"{shown!r} is plain http, for which client-go silently sends no credentials and runs no plugin; "
            "use https"
        )
        yield ("server",), "KF260", message
    elif url is not None and url.scheme == "https" and not url.host:
        message = f"{shown!r} has no host after 'https://'; write for example 'https://cluster.example:6443'"
        yield ("server",), "KF261", message
    elif url is None or url.scheme != "https":
        message = (
            f"{shown!r} does not begin with 'https://', so client-go treats it as plain http and silently sends no "
            "credentials"
        )
        yield ("server",), "KF261", message
    if "@" in ((url.authority if url else server) or ""):
        yield (
            ("server",),
            "KF270",
            f"{shown!r} contains a user name or password, which is visible in every output of the server's URL",
        )


def _check_proxy(proxy: str, url: Url) -> Iterator[Suspicion]:
    shown = hide_in_url(proxy)
    if "@" in (url.authority or ""):
        message = (
            f"{shown!r} contains a user name or password, which plugins with provideClusterInfo also get; "
            "authenticate to the proxy in another way"
        )
        yield ("proxy-url",), "KF264", message
    if url.scheme == "http":
        message = (
            f"{shown!r} is plain http: others on the network can read the name of the cluster and the proxy's "
            "password; use https if the proxy supports it"
        )
        yield ("proxy-url",), "KF265", message


def check_user(user: AuthInfo, anchored: AuthInfo) -> Iterator[Suspicion]:
    """Yield the suspicions about one user, except those about its plugin."""
    if user.token and not is_placeholder(user.token):
        yield ("token",), "KF270", "the file contains a token; use tokenFile or exec"
    if user.password and not is_placeholder(user.password):
        yield (
            ("password",),
            "KF270",
            "the file contains a password; use a token or certificate from exec",
        )
    if user.client_key_data and b64encode(user.client_key_data) not in _REDACTED:
        yield ("client-key-data",), "KF270", "the file contains a private key; use client-key or exec"
    if user.token_file and _NO_TOKEN.match(anchored.token_file):
        message = f"{anchored.token_file!r} would be sent to the server as a token, but does not contain one"
        yield ("tokenFile",), "KF282", message
    if user.exec is not None and not _counts(user):
        message = (
            "the plugin is never run: the user's token, tokenFile, username or client certificate takes "
            "precedence"
        )
        yield ("exec",), "KF272", message


def _counts(user: AuthInfo) -> bool:
    config = ClientConfig(
        server="",
        bearer_token=user.token,
        token_file=user.token_file,
        username=user.username,
        password=user.password,
        client_certificate_data=user.client_certificate_data or user.client_certificate.encode(),
        exec=user.exec,
    )
    return config.uses_plugin
