"""The reasons behind a context's fate, in words and as facts: pure functions of an inquiry."""

import os
import shlex
from collections.abc import Iterator

from keyferry._core.reasons import Reason
from keyferry._core.secrets import MASK
from keyferry._core.user_info import hide_in_text, hide_user_info
from keyferry.api.meta import format_instant
from keyferry.clusters.why.disclose import mask_arguments
from keyferry.clusters.why.inquiry import Inquiry
from keyferry.clusters.why.traps import traps_for
from keyferry.invoke.executable import clean_path

__all__ = ["reasons_for"]


def reasons_for(inquiry: Inquiry) -> tuple[Reason, ...]:
    """Everything that led to the outcome, in the order in which client-go goes about it."""
    stages = (_files, _context, _user, _program, _policy, _plugin, _server)
    return (*(reason for stage in stages for reason in stage(inquiry)), *traps_for(inquiry))


def _files(inquiry: Inquiry) -> Iterator[Reason]:
    loaded = inquiry.loaded
    untrusted = {file.path: file.untrusted for file in loaded.files}
    for path in loaded.paths:
        if path in loaded.missing:
            yield Reason("file", path, "missing", "is not there, and passed over")
        elif why := untrusted.get(path):
            text = f"read; somebody else could have written it: {why}"
            yield Reason("file", path, "read", text, {"untrusted": why})
        else:
            yield Reason("file", path, "read", "read")


def _context(inquiry: Inquiry) -> Iterator[Reason]:
    config = inquiry.config
    current = inquiry.loaded.config.current_context
    which = "the current one" if config.context == current else f"not the current one, which is {current!r}"
    facts: dict[str, object] = {
        "cluster": config.cluster_name,
        "user": config.user_name,
        "namespace": config.namespace,
        "file": config.context_origin,
    }
    text = (
        f"{which}: cluster {config.cluster_name!r}, user {config.user_name!r}, namespace {config.namespace!r}"
    )
    yield Reason("context", config.context, "chosen", text, facts)
    shown = hide_user_info(config.server)
    proxy = f", through the proxy {hide_user_info(config.proxy_url)}" if config.proxy_url else ""
    facts = {"server": shown, "file": config.cluster_origin}
    yield Reason("cluster", config.cluster_name, "chosen", f"{shown}{proxy}", facts)


def _words(error: object) -> str:
    """An error on one line; errors name the server, whose URL may hold a password."""
    return hide_in_text("; ".join(str(error).splitlines()))


def _user(inquiry: Inquiry) -> Iterator[Reason]:
    config, mechanism = inquiry.config, inquiry.mechanism
    facts: dict[str, object] = {
        "mechanism": list(mechanism.used),
        "ignored": list(mechanism.ignored),
        "file": config.user_origin,
    }
    outcome = "failed" if inquiry.stage == "user" else "anonymous" if not mechanism.used else "chosen"
    text = f"authenticated by {mechanism}" if mechanism.used else f"not authenticated: {mechanism}"
    if inquiry.stage == "user":
        text += f"; which cannot be: {_words(inquiry.error)}"
    yield Reason("user", config.user_name, outcome, text, facts)
    if config.impersonate:
        yield Reason("user", config.user_name, "impersonates", f"and acts as {config.impersonate!r}")


def _program(inquiry: Inquiry) -> Iterator[Reason]:
    plugin = inquiry.config.exec
    if plugin is None or not inquiry.uses_plugin:
        return
    command = clean_path(plugin.command)
    arguments = mask_arguments(plugin.args or ())
    names = [variable.name for variable in plugin.env]
    facts: dict[str, object] = {
        "command": command,
        "args": list(arguments),
        "env": names,
        "apiVersion": plugin.api_version,
        "interactiveMode": plugin.interactive_mode,
        "provideClusterInfo": plugin.provide_cluster_info,
    }
    if inquiry.permit is not None:
        facts["path"] = inquiry.permit.path
        yield _found(inquiry, command, facts)
    yield Reason("program", command, "command", f"command: {_line((command, *arguments))}", facts)
    env = ", ".join(names) or "none"
    own = f"the {len(os.environ)} of this process, and KUBERNETES_EXEC_INFO"
    yield Reason("program", command, "environment", f"variables set for it: {env}; and {own}")
    told = "is told" if plugin.provide_cluster_info else "is not told"
    text = f"it {told} about the cluster (provideClusterInfo), speaks {plugin.api_version}"
    yield Reason("program", command, "protocol", f"{text}, interactiveMode {plugin.interactive_mode}")


def _line(words: tuple[str, ...]) -> str:
    return shlex.join(words).replace(f"'{MASK}'", MASK)


def _found(inquiry: Inquiry, command: str, facts: dict[str, object]) -> Reason:
    permit = inquiry.permit
    if permit is not None and permit.problem:
        return Reason("program", command, "not-found", f"cannot be found: {permit.problem}", facts)
    path = permit.path if permit is not None else command
    if not os.path.exists(path):
        return Reason("program", command, "not-found", f"{path} is not there", facts)
    where = "by its path" if os.sep in command else "in PATH"
    return Reason("program", command, "found", f"found {where}: {path}", facts)


def _policy(inquiry: Inquiry) -> Iterator[Reason]:
    subject = inquiry.config.exec.command if inquiry.config.exec is not None else ""
    if inquiry.stage == "policy":
        yield Reason("policy", subject, "denied", f"refused: {_words(inquiry.error)}")
    if inquiry.stage == "policy" or not inquiry.uses_plugin:
        return
    loaded = inquiry.kuberc
    kind = loaded.policy.policy_type if loaded is not None else ""
    if loaded is None or not loaded.path:
        text = "allowed: there is no kuberc, so every program may run"
    elif kind in ("", "AllowAll"):
        text = f"allowed: {loaded.path} lets every program run"
    else:
        pinned = ", with its digest" if inquiry.permit is not None and inquiry.permit.digests else ""
        text = f"allowed: it is in the allowlist of {loaded.path}{pinned}"
    yield Reason("policy", subject, "allowed", text, {"policy": kind or "AllowAll"})


def _plugin(inquiry: Inquiry) -> Iterator[Reason]:
    if not inquiry.uses_plugin or inquiry.stage in ("policy", "user"):
        yield from _certificate(inquiry)
        return
    command = inquiry.config.exec.command if inquiry.config.exec is not None else ""
    if inquiry.stage == "plugin":
        yield Reason(
            "plugin", command, "failed", _words(getattr(inquiry.error, "cause", None) or inquiry.error)
        )
        return
    credential = inquiry.credential
    if credential is None:
        yield Reason("plugin", command, "not-run", "not run (--no-run)")
        return
    kinds = [
        name
        for name, value in (("a token", credential.token), ("a certificate", credential.certificate_pem))
        if value
    ]
    until = (
        "it names no end" if credential.expires_ns is None else f"it {inquiry.ending(credential.expires_ns)}"
    )
    facts: dict[str, object] = {
        "token": bool(credential.token),
        "certificate": bool(credential.certificate_pem),
        "expires": None if credential.expires_ns is None else format_instant(credential.expires_ns),
        "seconds": round(inquiry.seconds, 6),
    }
    text = f"answered after {inquiry.seconds * 1000:.0f} ms with {' and '.join(kinds)}; {until}"
    yield Reason("plugin", command, "answered", text, facts)
    yield from _certificate(inquiry)


def _certificate(inquiry: Inquiry) -> Iterator[Reason]:
    pair = inquiry.key_pair
    if pair is not None:
        facts: dict[str, object] = {"subject": pair.subject, "notAfter": format_instant(pair.not_after_ns)}
        text = f"certificate of {pair.subject!r}, which {inquiry.ending(pair.not_after_ns)}"
        yield Reason("plugin", pair.subject, "certificate", text, facts)


def _server(inquiry: Inquiry) -> Iterator[Reason]:
    answer, server = inquiry.review, hide_user_info(inquiry.config.server)
    if inquiry.stage == "server":
        yield Reason("server", server, "failed", _words(inquiry.error))
    elif answer is not None and not answer.status:
        groups = f", in {', '.join(answer.groups)}" if answer.groups else ""
        facts: dict[str, object] = {"username": answer.username, "groups": list(answer.groups)}
        yield Reason("server", server, "accepted", f"takes you for {answer.username!r}{groups}", facts)
    elif answer is not None:
        yield _refusal(inquiry, answer.status, answer.problem)


def _refusal(inquiry: Inquiry, status: int, problem: str) -> Reason:
    server, asked = hide_user_info(inquiry.config.server), inquiry.version_status
    if 200 <= asked < 300:
        text = f"answers, and does not say who you are ({status}): /version gives {asked}"
        return Reason("server", server, "answers", text, {"status": asked})
    again = ", and again after the plugin was run once more" if status == 401 and inquiry.ran else ""
    return Reason("server", server, "refused", f"said {status} {problem}{again}", {"status": status})
