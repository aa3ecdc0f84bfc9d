"""Lint the clusters and users of a kubeconfig: values that client-go accepts but that are probably not intended.

Certificates are among them: client-go refuses those that cannot be used only when it connects.
"""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterator

from keyferry._core.clock import time_ns
from keyferry._core.paths import Path
from keyferry._core.severity import Severity
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry._net.url import parse_url
from keyferry.api.clientauthentication import v1
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, ExecConfig
from keyferry.api.meta import format_time
from keyferry.clusters.auth.pem import find_blocks, parse_key_pair
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.kubeconfig.resolve import ClientConfig, clean_install_hint
from keyferry.clusters.kubeconfig.validate import PROXY_SCHEMES
from keyferry.clusters.tls import check_authorities
from keyferry.errors import ClusterAuthError, EnvironmentProblem
from keyferry.invoke.executable import clean_path, is_loader_variable, look_path
from keyferry.lint.code import Code, Finding, Rules
from keyferry.lint.secrets import (
    is_placeholder,
    looks_secret,
    refers_to_variable,
    secret_arguments,
)
from keyferry.lint.source import who_writes

_MAX_FILE = 16 << 20
# What kubectl writes in place of a key, and what others do; both happen to be base64.
_REDACTED = (b"DATA+OMITTED", b"REDACTED")
# Files that do not contain a token, but whose content would be sent to the server as one.
_NO_TOKEN = re.compile(
    r"/(?:proc|sys|dev|boot)/|/etc/(?:g?shadow|passwd|sudoers|ssh/|ssl/private/|security/|.*\.keytab)|"
    r".*/\.(?:ssh|gnupg|aws|azure|config/gcloud|docker|netrc|pgpass|git-credentials|vault-token|\w+_history)"
)


class ClusterEntry(Value):
    """A cluster as it is written, and with the paths that client-go opens."""

    written: Cluster
    usable: Cluster


class UserEntry(Value):
    """A user as it is written, with paths that start at the folder of the file, and without files of odd kinds."""

    written: AuthInfo
    anchored: AuthInfo
    usable: AuthInfo


class ExecEntry(Value):
    """The plugin of a user, as it is written, and with the path of its command."""

    written: ExecConfig
    anchored: ExecConfig


cluster_rule = Rules[ClusterEntry]()
user_rule = Rules[UserEntry]()
exec_rule = Rules[ExecEntry]()


def _read(path: str) -> bytes:
    """Return the content of a file; empty if it cannot be read, which is reported elsewhere."""
    if not path:
        return b""
    try:
        with open(path, "rb") as stream:
            return stream.read(_MAX_FILE)
    except (OSError, ValueError):
        return b""


# Secrets, of clusters, users and plugins.

KF270 = Code(
    "KF270",
    Severity.WARNING,
    "the kubeconfig contains a secret",
    why="the file is easily copied, sent and backed up, and the secret does not expire by itself",
    fix="use exec or tokenFile",
)
KF271 = Code(
    "KF271",
    Severity.WARNING,
    "the arguments or variables of a plugin contain a secret",
    why="arguments are visible in the process list, and both are stored in the file",
    fix="let the plugin read the secret from a file that only you can read",
)

# Clusters.

KF260 = Code(
    "KF260",
    Severity.WARNING,
    "the server uses plain http",
    why="credentials are read only for https: exec, tokens and certificates are silently ignored",
    fix="use https",
)
KF261 = Code(
    "KF261",
    Severity.WARNING,
    "the server has no https://",
    why="a server without a scheme is plain http, so credentials are silently ignored",
    fix="begin the server with https://",
)


@cluster_rule(KF260, KF261, KF270)
def server(entry: ClusterEntry) -> Iterator[Finding]:
    """A server to which client-go sends no credentials, or whose URL has some."""
    text = entry.written.server
    if not text:
        return  # reported as a refusal
    url, shown = parse_url(text), hide_in_url(text)
    if url is not None and url.scheme == "http":
        message = (
            f"{shown!r} is plain http, for which client-go silently sends no credentials and runs no plugin; "
            "use https"
        )
        yield KF260.at("server", message=message)
    elif url is not None and url.scheme == "https" and not url.host:
        message = f"{shown!r} has no host after 'https://'; write for example 'https://cluster.example:6443'"
        yield KF261.at("server", message=message)
    elif url is None or url.scheme != "https":
        message = (
            f"{shown!r} does not begin with 'https://', so client-go treats it as plain http and silently sends no "
            "credentials"
        )
        yield KF261.at("server", message=message)
    if "@" in ((url.authority if url else text) or ""):
        message = f"{shown!r} contains a user name or password, which is visible in every output of the server's URL"
        yield KF270.at("server", message=message)


KF262 = Code(
    "KF262",
    Severity.WARNING,
    "the server's certificate is not verified",
    why="an attacker on the network between you and the cluster gets the credentials",
    fix="set certificate-authority-data, and tls-server-name if the names differ",
)


@cluster_rule(KF262)
def verification(entry: ClusterEntry) -> Iterator[Finding]:
    """A server whose certificate is not verified."""
    if entry.written.insecure_skip_tls_verify:
        message = "any server is trusted and gets the credentials; set the cluster's certificate authority"
        yield KF262.at("insecure-skip-tls-verify", message=message)


KF264 = Code(
    "KF264",
    Severity.WARNING,
    "proxy-url contains a password",
    why="plugins with provideClusterInfo get it, and it appears in Kubernetes' error messages",
    fix="remove it from the URL",
)
KF265 = Code(
    "KF265",
    Severity.WARNING,
    "the proxy uses plain http",
    why="the name of the cluster and the proxy's password can be read on the network",
    fix="use https if the proxy supports it",
)


@cluster_rule(KF264, KF265)
def proxy(entry: ClusterEntry) -> Iterator[Finding]:
    """A proxy that others can listen to, or whose URL has a password."""
    text = entry.written.proxy_url
    url = parse_url(text) if text else None
    if url is None or url.scheme not in PROXY_SCHEMES:
        return
    shown = hide_in_url(text)
    if "@" in (url.authority or ""):
        message = (
            f"{shown!r} contains a user name or password, which plugins with provideClusterInfo also get; "
            "authenticate to the proxy in another way"
        )
        yield KF264.at("proxy-url", message=message)
    if url.scheme == "http":
        message = (
            f"{shown!r} is plain http: others on the network can read the name of the cluster and the proxy's "
            "password; use https if the proxy supports it"
        )
        yield KF265.at("proxy-url", message=message)


KF263 = Code(
    "KF263",
    Severity.WARNING,
    "a certificate authority and insecure-skip-tls-verify are both set",
    why="client-go and keyferry refuse to connect over https if both are set",
    fix="remove insecure-skip-tls-verify",
)
KF289 = Code(
    "KF289",
    Severity.WARNING,
    "the certificate authority is not PEM",
    why="client-go cannot load the root certificates, and no connection is made",
    fix="set certificates that begin with -----BEGIN CERTIFICATE-----",
)


@cluster_rule(KF263, KF289)
def certificate_authority(entry: ClusterEntry) -> Iterator[Finding]:
    """A certificate authority with which client-go refuses to connect."""
    cluster = entry.usable
    url = parse_url(cluster.server)
    if url is None or url.scheme != "https" or not url.host:
        return  # client-go makes no TLS connection
    field = "certificate-authority-data" if cluster.certificate_authority_data else "certificate-authority"
    data = cluster.certificate_authority_data or _read(cluster.certificate_authority)
    if cluster.insecure_skip_tls_verify and (data or cluster.certificate_authority):
        message = (
            "client-go refuses to connect if a certificate authority is also set: "
            "specifying a root certificates file with the insecure flag is not allowed; remove this field"
        )
        yield KF263.at("insecure-skip-tls-verify", message=message)
    elif data and not _is_authority(data):
        yield KF289.at(field, message=_why_no_authority(data))


def _is_authority(data: bytes) -> bool:
    try:
        check_authorities(data)
    except ClusterAuthError:
        return False
    return True


def _why_no_authority(data: bytes) -> str:
    types = [kind for kind, _ in find_blocks(data.decode("utf-8", "surrogateescape"))]
    reason, what = "no valid certificate authority data seen", "has no certificate"
    if not types:
        reason, what = "unable to parse bytes as PEM block", "is not PEM"
    elif "CERTIFICATE" in types:
        reason, what = "failed to parse certificate", "has a certificate that cannot be parsed"
    return (
        f"the certificate authority {what}, and client-go refuses to connect: unable to load root certificates: "
        f"{reason}; set certificates in PEM form"
    )


# Users.


@user_rule(KF270)
def secrets(entry: UserEntry) -> Iterator[Finding]:
    """Secrets that stand in the file."""
    user = entry.written
    if user.token and not is_placeholder(user.token):
        yield KF270.at("token", message="the file contains a token; use tokenFile or exec")
    if user.password and not is_placeholder(user.password):
        message = "the file contains a password; use a token or certificate from exec"
        yield KF270.at("password", message=message)
    if user.client_key_data and b64encode(user.client_key_data) not in _REDACTED:
        message = "the file contains a private key; use client-key or exec"
        yield KF270.at("client-key-data", message=message)


KF282 = Code(
    "KF282",
    Severity.WARNING,
    "tokenFile is not a file with a token",
    why="its content would be sent to the server, which an attacker may control",
    fix="check where this kubeconfig comes from; set a file with a token",
)


@user_rule(KF282)
def token_file(entry: UserEntry) -> Iterator[Finding]:
    """A file that is no token, and would be sent to the server."""
    path = entry.anchored.token_file
    if entry.written.token_file and _NO_TOKEN.match(path):
        message = f"{path!r} would be sent to the server as a token, but does not contain one"
        yield KF282.at("tokenFile", message=message)


KF272 = Code(
    "KF272",
    Severity.WARNING,
    "the plugin is never run",
    why="a token, tokenFile, username, password or client certificate silently takes precedence over exec",
    fix="remove one of the two",
)


@user_rule(KF272)
def precedence(entry: UserEntry) -> Iterator[Finding]:
    """A plugin that is never run."""
    user = entry.written
    config = ClientConfig(
        server="",
        bearer_token=user.token,
        token_file=user.token_file,
        username=user.username,
        password=user.password,
        client_certificate_data=user.client_certificate_data or user.client_certificate.encode(),
        exec=user.exec,
    )
    if user.exec is not None and not config.uses_plugin:
        message = (
            "the plugin is never run: the user's token, tokenFile, username or client certificate takes "
            "precedence"
        )
        yield KF272.at("exec", message=message)


KF287 = Code(
    "KF287",
    Severity.WARNING,
    "the client certificate cannot be used",
    why="it is parsed only for a connection, which then fails",
    fix="set a certificate and the key that belongs to it, as PEM",
)
KF288 = Code(
    "KF288",
    Severity.WARNING,
    "the client certificate has expired",
    why="the server refuses it",
    fix="obtain a new certificate",
)


@user_rule(KF287, KF288)
def client_certificate(entry: UserEntry) -> Iterator[Finding]:
    """A client certificate that cannot be used."""
    user = entry.usable
    certificate = user.client_certificate_data or _read(user.client_certificate)
    key = user.client_key_data or _read(user.client_key)
    if not certificate or not key:
        return
    field = "client-certificate-data" if user.client_certificate_data else "client-certificate"
    try:
        pair = parse_key_pair(certificate.decode("utf-8", "replace"), key.decode("utf-8", "replace"))
    except ClusterAuthError as error:
        yield KF287.at(field, message=f"client-go cannot connect with it: {error.message}")
    except EnvironmentProblem:
        return  # certificates can only be parsed with keyferry[crypto]
    else:
        if pair.not_after_ns < time_ns():
            message = f"the certificate expired on {format_time(pair.not_after_ns)}; obtain a new one"
            yield KF288.at(field, message=message)


# The plugin of a user; the paths begin in its exec section.

KF274 = Code(
    "KF274",
    Severity.WARNING,
    "the command is a relative path",
    why="it starts at the folder of the kubeconfig, so the plugin is not found after the file is moved",
    fix="set an absolute path, or a name to search in PATH",
)
KF275 = Code(
    "KF275",
    Severity.INFO,
    "the command is not found in PATH",
    why="the plugin cannot be run with this PATH; it may be in another folder",
    fix="install the plugin, or set its path",
    on_this_machine=True,
)
KF276 = Code(
    "KF276",
    Severity.WARNING,
    "the command does not exist",
    why="a path is not searched in PATH, and client-go does not show the installHint for it",
    fix="install the plugin, or correct the path",
    on_this_machine=True,
)


@exec_rule(KF274, KF275, KF276)
def command(entry: ExecEntry) -> Iterator[Finding]:
    """A program that is not found, or not everywhere."""
    written, anchored = entry.written.command, entry.anchored.command
    if not written:
        return  # reported as a refusal
    if written != anchored:
        message = f"{written!r} is relative to the folder of this file, not to the current one: it means {anchored!r}"
        yield KF274.at("command", message=message)
    found = look_path(clean_path(anchored))
    if found.problem and os.sep in anchored:
        message = f"{anchored!r} cannot be run on this machine: {found.reason}"
        yield KF276.at("command", message=message)
    elif found.problem:
        message = f"{written!r} is not found in the PATH of this process; install it, or set its path"
        yield KF275.at("command", message=message)


KF283 = Code(
    "KF283",
    Severity.WARNING,
    "other users can change the plugin",
    why="a user who can write the program, or replace it in its folder, can run code as you",
    fix="run chmod go-w, or install it in a folder that only root can write",
    on_this_machine=True,
)


@exec_rule(KF283)
def program(entry: ExecEntry) -> Iterator[Finding]:
    """A program that others can change."""
    found = look_path(clean_path(entry.anchored.command)) if entry.written.command else None
    if found is None or found.problem:
        return
    target = os.path.realpath(found.path)
    try:
        status = os.stat(target)
        # A user who can replace the link chooses the program, like one who can replace its target.
        replaceable = [each for each in dict.fromkeys((target, found.path)) if _is_replaceable(each)]
    except OSError:
        return
    who = who_writes(status.st_mode)
    if who:
        message = f"{who} can write {target} and choose the program that runs; run chmod go-w {target}"
        yield KF283.at("command", message=message)
    elif replaceable:
        folder, name = os.path.split(replaceable[0])
        message = f"everybody can write to {folder} and replace {name}; run chmod o-w {folder}"
        yield KF283.at("command", message=message)
    elif status.st_uid not in (0, os.geteuid()):
        message = f"{target} belongs to user {status.st_uid}, who can change it"
        yield KF283.at("command", message=message)


def _is_replaceable(path: str) -> bool:
    mode = os.stat(os.path.dirname(path)).st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


KF273 = Code(
    "KF273",
    Severity.INFO,
    "exec uses an old version of the plugin protocol",
    why="v1 exists since Kubernetes 1.22, and older versions are removed, as v1alpha1 was",
    fix="set client.authentication.k8s.io/v1 and an interactiveMode if the plugin supports v1",
    kubernetes="v1 since 1.22",
)


@exec_rule(KF273)
def protocol(entry: ExecEntry) -> Iterator[Finding]:
    """An old version of the plugin protocol."""
    version = entry.written.api_version
    if version != v1.API_VERSION and version in v1.API_VERSIONS:
        message = (
            f"{version!r} is an old version; set {v1.API_VERSION!r} if the plugin supports it, "
            "and an interactiveMode"
        )
        yield KF273.at("apiVersion", message=message)


KF281 = Code(
    "KF281",
    Severity.WARNING,
    "installHint contains control characters",
    why="they could change the state of a terminal, so they are shown as escape sequences",
    fix="remove them",
)


@exec_rule(KF281)
def install_hint(entry: ExecEntry) -> Iterator[Finding]:
    """A text that would write to the terminal what it should not."""
    hint = entry.written.install_hint
    if clean_install_hint(hint) != hint:
        message = "it contains control characters, which are shown as code points such as U+001B; remove them"
        yield KF281.at("installHint", message=message)


KF277 = Code(
    "KF277",
    Severity.WARNING,
    "a variable changes which code runs",
    why="it can load other code into the plugin; PATH does not affect the search for the plugin itself",
    fix="remove it, or make sure that only you can write to the paths in it",
)
KF278 = Code(
    "KF278",
    Severity.WARNING,
    "KUBERNETES_EXEC_INFO is set",
    why="clients set this variable for every plugin, which replaces the configured value",
    fix="remove it",
)
KF279 = Code(
    "KF279", Severity.WARNING, "a variable is set twice", why="the last value is used", fix="keep one of them"
)
KF280 = Code(
    "KF280",
    Severity.WARNING,
    "a variable cannot be set",
    why="a name with '=' sets another variable, and with a NUL the plugin cannot be started",
    fix="correct the name or the value",
)
KF284 = Code(
    "KF284",
    Severity.WARNING,
    "the value of a variable refers to another variable",
    why="kubectl does not expand ${NAME}, $(NAME) or $NAME: the plugin gets these characters",
    fix="write the value itself, or set the variable in the environment of kubectl and remove this one",
)


@exec_rule(KF271, KF277, KF278, KF279, KF280, KF284)
def environment(entry: ExecEntry) -> Iterator[Finding]:
    """Variables that cannot be set, contain a secret, or do something else than they seem to."""
    names: dict[str, int] = {}
    for index, variable in enumerate(entry.written.env):
        yield from _check_variable(index, variable.name, variable.value)
        first = names.setdefault(variable.name, index)
        if first != index and variable.name:
            message = f"{variable.name!r} is already set by env[{first}]; the last value is used"
            yield KF279.at("env", index, "name", message=message)


def _check_variable(index: int, name: str, value: str) -> Iterator[Finding]:
    of_name: Path = ("env", index, "name")
    of_value: Path = ("env", index, "value")
    if "=" in name or "\0" in name + value:
        what = "a NUL, so the plugin cannot be started" if "\0" in name + value else "a '=' in its name"
        yield KF280.at(*of_name, message=f"{name!r} has {what}")
    if name == EXEC_INFO:
        message = f"{name!r} is set for every plugin, which replaces this value; remove it"
        yield KF278.at(*of_name, message=message)
    elif name == "PATH":
        message = (
            "it applies to the programs that the plugin starts; the plugin itself is searched in the PATH of "
            "kubectl"
        )
        yield KF277.at(*of_name, message=f"{name!r} changes which code runs: {message}")
    elif is_loader_variable(name):
        message = f"{name!r} loads other code into the plugin; make sure that this is intended"
        yield KF277.at(*of_name, message=message)
    if looks_secret(name, value):
        message = (
            f"the value of {name!r} looks like a secret; let the plugin read a file that only you can read"
        )
        yield KF271.at(*of_value, message=message)
    if refers_to_variable(value):
        message = f"the value of {name!r} refers to a variable, which kubectl does not expand; write the value itself"
        yield KF284.at(*of_value, message=message)


@exec_rule(KF271)
def arguments(entry: ExecEntry) -> Iterator[Finding]:
    """Arguments that contain a secret."""
    for index, what in secret_arguments(entry.written.args or ()):
        message = f"{what} looks like a secret, and arguments are visible in the process list"
        yield KF271.at("args", index, message=message)
