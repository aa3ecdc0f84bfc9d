"""Find traps: settings of a context that are valid, but whose effect in client-go may be unexpected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._net.url import parse_url
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.clusters.why.mechanism import is_https
from keyferry.invoke.executable import clean_path


class ClusterTrap(StrEnum):
    """The kinds of traps in a kubeconfig context."""

    HTTP_SERVER = "http-server"
    STATIC_BESIDE_EXEC = "static-beside-exec"
    UNKNOWN_USER = "unknown-user"
    V1ALPHA1 = "v1alpha1"
    INTERACTIVE_ALWAYS = "interactive-always"
    INTERACTIVE_IF_AVAILABLE = "interactive-if-available"
    TILDE = "tilde"
    RELATIVE_COMMAND = "relative-command"
    SEVERAL_IN_PATH = "several-in-path"
    CONFIGURED_PATH = "configured-path"
    NOT_IN_PATH = "not-in-path"
    EXPIRED_CERTIFICATE = "expired-certificate"
    EXPIRED_CREDENTIAL = "expired-credential"
    INSECURE_TLS = "insecure-tls"
    HTTP_PROXY = "http-proxy"
    UNTRUSTED_FILE = "untrusted-file"
    BROKEN_KUBERC = "broken-kuberc"
    KUBERC_WARNING = "kuberc-warning"


def traps_for(diagnosis: Diagnosis) -> tuple[Reason, ...]:
    """Return every trap that applies to *diagnosis*."""
    return tuple(trap for check in _TRAP_CHECKS for trap in check(diagnosis))


def _trap(outcome: ClusterTrap, subject: str, text: str) -> Reason:
    return Reason(stage=ReasonStage.TRAP, subject=subject, outcome=outcome, text=text)


def _plugins(diagnosis: Diagnosis) -> Iterator[ExecConfig]:
    """Yield the exec section as it is in the file, before paths are resolved."""
    config = diagnosis.config
    for file in diagnosis.loaded.files:
        user = file.config.users.get(config.user_name)
        if file.path == config.user_origin and user is not None and user.exec is not None:
            yield user.exec


def _scheme(diagnosis: Diagnosis) -> Iterator[Reason]:
    ignored = diagnosis.mechanism.ignored
    if not is_https(diagnosis.config.server) and ignored:
        text = (
            f"the server is not https, so client-go ignores the user's credentials ({', '.join(ignored)}) "
            "and requests are anonymous"
        )
        yield _trap(ClusterTrap.HTTP_SERVER, diagnosis.config.cluster_name, text)


def _static(diagnosis: Diagnosis) -> Iterator[Reason]:
    mechanism = diagnosis.mechanism
    if mechanism.used and mechanism.ignored:
        text = (
            f"the user has {' and '.join(mechanism.used)} as well as {mechanism.ignored[0]}: "
            "static credentials take precedence, and the plugin is never run"
        )
        yield _trap(ClusterTrap.STATIC_BESIDE_EXEC, diagnosis.config.user_name, text)


def _dangling(diagnosis: Diagnosis) -> Iterator[Reason]:
    name = diagnosis.config.user_name
    if name and name not in diagnosis.loaded.config.users:
        text = (
            f"the context names the user {name!r}, which does not exist in any file: requests are anonymous"
        )
        yield _trap(ClusterTrap.UNKNOWN_USER, name, text)


def _version(diagnosis: Diagnosis) -> Iterator[Reason]:
    for plugin in _plugins(diagnosis):
        if plugin.api_version.endswith("/v1alpha1"):
            text = (
                "v1alpha1 was removed in Kubernetes 1.24: kubectl accepts the file, but every request fails; "
                "use v1 or v1beta1 if the plugin supports it"
            )
            yield _trap(ClusterTrap.V1ALPHA1, plugin.api_version, text)


def _interaction(diagnosis: Diagnosis) -> Iterator[Reason]:
    plugin = diagnosis.config.exec
    if plugin is None or not diagnosis.uses_plugin:
        return
    is_terminal = os.isatty(0)
    if plugin.interactive_mode == "Always" and not is_terminal:
        text = "interactiveMode is Always: without a terminal, as in a job or a pipe, the plugin is never run"
        yield _trap(ClusterTrap.INTERACTIVE_ALWAYS, plugin.command, text)
    elif plugin.interactive_mode == "IfAvailable" and is_terminal:
        text = (
            "interactiveMode is IfAvailable and this is a terminal: for kubectl the plugin may prompt, and has no "
            "time limit; here, as in a job, it runs without the terminal, and its answer may differ"
        )
        yield _trap(ClusterTrap.INTERACTIVE_IF_AVAILABLE, plugin.command, text)


def _command(diagnosis: Diagnosis) -> Iterator[Reason]:
    for plugin in _plugins(diagnosis) if diagnosis.uses_plugin else ():
        command = plugin.command
        if command.startswith("~"):
            yield _trap(ClusterTrap.TILDE, command, f"{command!r}: '~' is not expanded, but taken literally")
        elif "/" in command and not os.path.isabs(command):
            folder = f"the folder of {diagnosis.config.user_origin}, not to the current one"
            # A controller runs the command of its provider file from where it is.
            folder = folder if diagnosis.choice is None else "the current folder"
            text = f"{command!r} is relative to {folder}"
            yield _trap(ClusterTrap.RELATIVE_COMMAND, command, text)
        elif "/" not in command:
            yield from _path(clean_path(command), plugin)


def _path(command: str, plugin: ExecConfig) -> Iterator[Reason]:
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    candidates = dict.fromkeys(os.path.join(folder, command) for folder in folders)
    found = [path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)]
    if len(found) > 1:
        others = ", ".join(found[1:])
        yield _trap(
            ClusterTrap.SEVERAL_IN_PATH,
            command,
            f"{command!r} is in PATH more than once; the first one is run, not {others}",
        )
    if any(variable.name == "PATH" for variable in plugin.env):
        text = "the PATH in the kubeconfig is passed to the plugin, but the plugin itself is searched for in your PATH"
        yield _trap(ClusterTrap.CONFIGURED_PATH, command, text)
    if not found:
        text = f"{command!r} is searched for in the PATH of this process; services and jobs often have a shorter one"
        yield _trap(ClusterTrap.NOT_IN_PATH, command, text)


def _expiry(diagnosis: Diagnosis) -> Iterator[Reason]:
    credential, pair, now_ns = diagnosis.credential, diagnosis.key_pair, diagnosis.now_ns
    if pair is not None and pair.not_after_ns < now_ns:
        kept = "; the plugin's answer has no expiry, so it is used for the life of the process"
        tail = kept if credential is not None and credential.expires_ns is None else ""
        text = f"the client certificate {diagnosis.ending(pair.not_after_ns)} and is still used{tail}"
        yield _trap(ClusterTrap.EXPIRED_CERTIFICATE, pair.subject, text)
    if diagnosis.is_expired and credential is not None and credential.expires_ns is not None:
        ending = diagnosis.ending(credential.expires_ns)
        text = f"the credential {ending} when the plugin printed it: each request runs the plugin"
        yield _trap(ClusterTrap.EXPIRED_CREDENTIAL, diagnosis.config.user_name, text)


def _transport(diagnosis: Diagnosis) -> Iterator[Reason]:
    config = diagnosis.config
    if config.insecure:
        text = (
            "insecure-skip-tls-verify is set: anyone between you and the server can read and use the credential; "
            "set the cluster's certificate-authority-data instead"
        )
        yield _trap(ClusterTrap.INSECURE_TLS, config.cluster_name, text)
    proxy = parse_url(config.proxy_url) if config.proxy_url else None
    if proxy is not None and proxy.scheme == "http":
        secret = ", and the proxy's password" if "@" in (proxy.authority or "") else ""
        text = f"the proxy {proxy.host} uses http: anyone on the way to it can see the server's name{secret}"
        yield _trap(ClusterTrap.HTTP_PROXY, proxy.host, text)


def _trust(diagnosis: Diagnosis) -> Iterator[Reason]:
    found = diagnosis.distrust
    if found is not None:
        text = (
            f"{found.what} is named by {found.file}, and {found.why}: kubectl {found.consequence} nevertheless, "
            "keyferry only with --trust"
        )
        yield _trap(ClusterTrap.UNTRUSTED_FILE, found.file, text)


def _kuberc(diagnosis: Diagnosis) -> Iterator[Reason]:
    if diagnosis.kuberc is None and diagnosis.kuberc_is_default:
        text = (
            f"{diagnosis.kuberc_path} is not valid: kubectl only prints a warning and then runs any plugin that the "
            "kubeconfig names; keyferry does not ignore a file that may contain a policy"
        )
        yield _trap(ClusterTrap.BROKEN_KUBERC, diagnosis.kuberc_path, text)
    for warning in diagnosis.kuberc.warnings if diagnosis.kuberc is not None else ():
        yield _trap(ClusterTrap.KUBERC_WARNING, diagnosis.kuberc_path, f"{diagnosis.kuberc_path}: {warning}")


_TRAP_CHECKS = (
    _scheme,
    _static,
    _dangling,
    _version,
    _interaction,
    _command,
    _expiry,
    _transport,
    _trust,
    _kuberc,
)
