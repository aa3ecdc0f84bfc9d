"""What is surprising about a context though it is right: where people's idea of client-go's rules differs."""

import os
from collections.abc import Iterator

from keyferry._core.reasons import Reason
from keyferry._net.url import parse_url
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.why.inquiry import Inquiry
from keyferry.clusters.why.mechanism import is_https
from keyferry.invoke.executable import clean_path

__all__ = ["traps_for"]


def traps_for(inquiry: Inquiry) -> tuple[Reason, ...]:
    """Every trap that applies, in words."""
    return tuple(trap for look in _LOOKS for trap in look(inquiry))


def _trap(outcome: str, subject: str, text: str) -> Reason:
    return Reason("trap", subject, outcome, text)


def _plugins(inquiry: Inquiry) -> Iterator[ExecConfig]:
    """The exec section as the file has it, paths not yet resolved."""
    config = inquiry.config
    for file in inquiry.loaded.files:
        user = file.config.users.get(config.user_name)
        if file.path == config.user_origin and user is not None and user.exec is not None:
            yield user.exec


def _scheme(inquiry: Inquiry) -> Iterator[Reason]:
    ignored = inquiry.mechanism.ignored
    if not is_https(inquiry.config.server) and ignored:
        text = (
            f"the server is not https, so client-go looks at nothing the user has: {', '.join(ignored)} "
            "is never used and the server is asked anonymously"
        )
        yield _trap("http-server", inquiry.config.cluster_name, text)


def _static(inquiry: Inquiry) -> Iterator[Reason]:
    mechanism = inquiry.mechanism
    if mechanism.used and mechanism.ignored:
        text = (
            f"the user has {' and '.join(mechanism.used)} beside {mechanism.ignored[0]}: "
            "what is static goes first, and the plugin is never run"
        )
        yield _trap("static-beside-exec", inquiry.config.user_name, text)


def _dangling(inquiry: Inquiry) -> Iterator[Reason]:
    name = inquiry.config.user_name
    if name and name not in inquiry.loaded.config.users:
        text = f"the context names the user {name!r}, which no file has: the server is asked anonymously"
        yield _trap("unknown-user", name, text)


def _version(inquiry: Inquiry) -> Iterator[Reason]:
    for plugin in _plugins(inquiry):
        if plugin.api_version.endswith("/v1alpha1"):
            text = (
                "v1alpha1 was removed in Kubernetes 1.24: kubectl accepts the file and then fails at each request; "
                "use v1, or v1beta1, if the plugin speaks it"
            )
            yield _trap("v1alpha1", plugin.api_version, text)


def _interaction(inquiry: Inquiry) -> Iterator[Reason]:
    plugin = inquiry.config.exec
    if plugin is None or not inquiry.uses_plugin:
        return
    is_terminal = os.isatty(0)
    if plugin.interactive_mode == "Always" and not is_terminal:
        text = "interactiveMode is Always: without a terminal, as in a job or a pipe, the plugin is not run at all"
        yield _trap("interactive-always", plugin.command, text)
    elif plugin.interactive_mode == "IfAvailable" and is_terminal:
        text = (
            "interactiveMode is IfAvailable and this is a terminal: the plugin may wait for an answer, without "
            "a deadline; in a job it runs without one, and may answer differently"
        )
        yield _trap("interactive-if-available", plugin.command, text)


def _command(inquiry: Inquiry) -> Iterator[Reason]:
    for plugin in _plugins(inquiry) if inquiry.uses_plugin else ():
        command = plugin.command
        if command.startswith("~"):
            yield _trap("tilde", command, f"{command!r}: '~' is not expanded, it is a name like any other")
        elif "/" in command and not os.path.isabs(command):
            text = (
                f"{command!r} counts from the folder of {inquiry.config.user_origin}, not from where you are"
            )
            yield _trap("relative-command", command, text)
        elif "/" not in command:
            yield from _path(clean_path(command), plugin)


def _path(command: str, plugin: ExecConfig) -> Iterator[Reason]:
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    candidates = dict.fromkeys(os.path.join(folder, command) for folder in folders)
    found = [path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)]
    if len(found) > 1:
        others = ", ".join(found[1:])
        yield _trap(
            "several-in-path", command, f"PATH has {command!r} more than once; the first is run, not {others}"
        )
    if any(variable.name == "PATH" for variable in plugin.env):
        text = (
            "the PATH that the kubeconfig sets is the plugin's own: the plugin itself is looked for in yours"
        )
        yield _trap("configured-path", command, text)
    if not found:
        text = f"{command!r} is looked for in the PATH of this process; services and jobs often have a shorter one"
        yield _trap("not-in-path", command, text)


def _expiry(inquiry: Inquiry) -> Iterator[Reason]:
    credential, pair, now_ns = inquiry.credential, inquiry.key_pair, inquiry.now_ns
    if pair is not None and pair.not_after_ns < now_ns:
        kept = "; the plugin names no end, so it is kept and shown for as long as the process lives"
        tail = kept if credential is not None and credential.expires_ns is None else ""
        text = f"the client certificate {inquiry.ending(pair.not_after_ns)} and is used all the same{tail}"
        yield _trap("expired-certificate", pair.subject, text)
    if credential is not None and credential.expires_ns is not None and credential.expires_ns < now_ns:
        text = f"the credential {inquiry.ending(credential.expires_ns)} when it was given: each request runs the plugin"
        yield _trap("expired-credential", inquiry.config.user_name, text)


def _transport(inquiry: Inquiry) -> Iterator[Reason]:
    config = inquiry.config
    if config.insecure:
        text = (
            "insecure-skip-tls-verify: whoever sits between you and the server can read the credential "
            "and use it; give the cluster its certificate-authority-data instead"
        )
        yield _trap("insecure-tls", config.cluster_name, text)
    proxy = parse_url(config.proxy_url) if config.proxy_url else None
    if proxy is not None and proxy.scheme == "http":
        secret = ", and its own password goes to it in the clear" if "@" in (proxy.authority or "") else ""
        text = f"the proxy {proxy.host} is reached over http: it and whoever listens see which server you ask{secret}"
        yield _trap("http-proxy", proxy.host, text)


def _trust(inquiry: Inquiry) -> Iterator[Reason]:
    found = inquiry.distrust
    if found is not None:
        text = (
            f"{found.what} is named by {found.file}, and {found.why}: kubectl {found.deed} all the same, "
            "keyferry only with --trust"
        )
        yield _trap("untrusted-file", found.file, text)


def _kuberc(inquiry: Inquiry) -> Iterator[Reason]:
    if inquiry.kuberc is None and inquiry.kuberc_is_default:
        text = (
            f"{inquiry.kuberc_path} is broken: kubectl only warns of that, and then runs whatever the kubeconfig "
            "names; keyferry does not pass over a file that may hold a policy"
        )
        yield _trap("broken-kuberc", inquiry.kuberc_path, text)
    for warning in inquiry.kuberc.warnings if inquiry.kuberc is not None else ():
        yield _trap("kuberc-warning", inquiry.kuberc_path, f"{inquiry.kuberc_path}: {warning}")


_LOOKS = (
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
