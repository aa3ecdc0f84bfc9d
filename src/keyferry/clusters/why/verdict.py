"""The verdict of a diagnosis: whether the context works, the likely cause if it does not, and what to do."""

from __future__ import annotations

import shlex
from enum import StrEnum

from keyferry._core.reasons import ReasonStage
from keyferry._core.secrets import MASK, in_one_line, mask_arguments
from keyferry._core.values import Value
from keyferry.clusters.api_calls import ANONYMOUS, Review
from keyferry.clusters.auth.runner import IF_AVAILABLE, NEVER
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.errors import (
    ClusterAuthError,
    KeyferryError,
    Kind,
    PluginError,
    PluginExitError,
    PluginTimeoutError,
    signal_name,
)
from keyferry.invoke.executable import clean_path


class Works(StrEnum):
    """Whether a context works."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class ClusterVerdict(Value):
    """Whether a context works, in one line; the likely cause and the cures are empty if nothing is wrong."""

    outcome: Works
    text: str
    cause: str = ""
    cures: tuple[str, ...] = ()


_FAILURES = {
    ReasonStage.POLICY: "keyferry refuses to use it",
    ReasonStage.USER: "its user has no usable credential",
    ReasonStage.PLUGIN: "its plugin gave no credential",
    ReasonStage.SERVER: "its server gave no answer",
}
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _SERVER_ERROR = 401, 403, 404, 500
# Four lines of a terminal with 80 columns: more of what a plugin wrote is among the steps.
_MAX_SAID = 300
_CHECK_NETWORK = "check the network, the VPN and the proxy, and the address of the server"
_LOG_IN = "log in again with the tool that the plugin belongs to"


def find_verdict(diagnosis: Diagnosis, problem: str) -> ClusterVerdict:
    """Return the verdict; *problem* is the text of the step that failed, without secrets."""
    context, answer = diagnosis.subject, diagnosis.last_response
    if diagnosis.error is not None and diagnosis.stage is not None:
        text = f"{context} does not work: {_FAILURES.get(diagnosis.stage, 'a step failed')}"
        return ClusterVerdict(
            outcome=Works.NO, text=text, cause=_why_failed(diagnosis, problem), cures=_cures(diagnosis)
        )
    if answer is None:
        return ClusterVerdict(outcome=Works.UNKNOWN, text=f"{context} was not tried (--no-run)")
    if diagnosis.is_accepted:
        if answer.status:
            return ClusterVerdict(
                outcome=Works.YES, text=f"{context} works, but its server cannot say who you are"
            )
        return ClusterVerdict(outcome=Works.YES, text=f"{context} works: you are {answer.username!r}")
    failure = "does not work"
    if answer.status == _FORBIDDEN and answer.username not in ("", ANONYMOUS):
        failure = "is authenticated, but not permitted"
    text = f"{context} {failure}: its server responded {answer.status}"
    cause, cures = _judge_response(diagnosis, answer)
    return ClusterVerdict(outcome=Works.NO, text=text, cause=cause, cures=cures)


def _judge_response(diagnosis: Diagnosis, answer: Review) -> tuple[str, tuple[str, ...]]:
    """Return the likely cause of a response that is no success, and the cures."""
    if answer.status == _UNAUTHORIZED:
        return _why_unauthorized(diagnosis), _unauthorized_cures(diagnosis)
    if answer.status == _FORBIDDEN:
        return _why_forbidden(diagnosis, answer), _forbidden_cures(diagnosis, answer)
    if answer.status >= _SERVER_ERROR:
        cure = "try again; if it stays, tell whoever runs the server: the credential is not the cause"
        return f"the server, or a proxy in front of it, is out of order: {answer.problem}", (cure,)
    cure = f"check the server of {diagnosis.server_entry}"
    if answer.status == _NOT_FOUND:
        return "there is no Kubernetes API at this address", (cure,)
    return answer.problem, (cure,)


def _why_failed(diagnosis: Diagnosis, problem: str) -> str:
    """Return the likely cause of a failed step."""
    error = _underlying(diagnosis.error)
    if diagnosis.stage is ReasonStage.PLUGIN and isinstance(error, PluginError):
        return _why_plugin_failed(diagnosis, error, problem)
    if diagnosis.stage is ReasonStage.SERVER and (late := _why_expired(diagnosis)):
        # A server that is reached would refuse it.
        return f"{problem}; besides, {late}"
    return problem


def _why_plugin_failed(diagnosis: Diagnosis, error: PluginError, problem: str) -> str:
    """Return the reason that the plugin gave, and how it ended."""
    said = in_one_line(error.stderr_tail)
    if len(said) > _MAX_SAID:
        said = f"...{said[-_MAX_SAID:]}"
    end = describe_end(error)
    if isinstance(error, PluginTimeoutError):
        return f"it {end}; it wrote: {said}" if said else f"it {end}, and wrote nothing"
    if isinstance(error, PluginExitError):
        if said:
            return f"{said} (it {end})"
        # What it wrote to the terminal stands above the verdict.
        return f"it {end}" if diagnosis.needs_terminal else f"it {end} and gave no reason"
    return f"{problem}; it wrote: {said}" if said else problem


def describe_end(error: PluginError) -> str:
    """Return how a plugin failed, without what it wrote."""
    if isinstance(error, PluginTimeoutError):
        return f"did not finish within {error.timeout_seconds:g} s"
    if isinstance(error, PluginExitError):
        status = error.status
        return f"exited with status {status}" if status >= 0 else f"was killed by {signal_name(-status)}"
    return error.message


def _why_unauthorized(diagnosis: Diagnosis) -> str:
    """Return the likely reason for which the server does not accept the credential."""
    pair, mechanism, renewal = diagnosis.key_pair, diagnosis.mechanism, diagnosis.renewal
    if not mechanism.used:
        return "requests are anonymous: the user has no credential that is used"
    if renewal is not None and isinstance(error := _underlying(renewal.error), PluginError):
        why = _why_plugin_failed(diagnosis, error, error.message)
        return f"it does not accept the plugin's credential, and the plugin, run again, gave no other: {why}"
    if late := _why_expired(diagnosis):
        return late
    if pair is not None and pair.not_after_ns < diagnosis.now_ns:
        return f"the client certificate {diagnosis.ending(pair.not_after_ns)}"
    used = " + ".join(mechanism.used)
    if mechanism.ignored:
        return (
            f"{used} in the kubeconfig is no longer valid, and takes precedence over {mechanism.ignored[0]}"
        )
    again = "" if renewal is None else "; a second run of the plugin did not help"
    return f"the credential ({used}) is no longer valid, or is for another cluster{again}"


def _why_expired(diagnosis: Diagnosis) -> str:
    """Return that the plugin's credential has expired, or nothing if it has not."""
    credential = diagnosis.last_credential
    if not diagnosis.is_expired or credential is None or credential.expires_ns is None:
        return ""
    return f"the plugin answers with a credential that {diagnosis.ending(credential.expires_ns)}"


def _unauthorized_cures(diagnosis: Diagnosis) -> tuple[str, ...]:
    config, renewal = diagnosis.config, diagnosis.renewal
    if not diagnosis.mechanism.used:
        return (f"give user {config.user_name!r} a credential, and the cluster an https server",)
    if renewal is not None and isinstance(error := _underlying(renewal.error), PluginError):
        return _plugin_cures(diagnosis, error)
    if diagnosis.mechanism.ignored:
        used, plugin = " and ".join(diagnosis.mechanism.used), diagnosis.mechanism.ignored[0]
        return (
            f"remove {used} of user {config.user_name!r} from {config.user_origin}: then {plugin} is run",
        )
    if diagnosis.uses_plugin:
        return (_LOG_IN, f"check that {diagnosis.owner} is for cluster {config.cluster_name!r}")
    return (f"replace the credential of {diagnosis.owner} in {config.user_origin}",)


def _why_forbidden(diagnosis: Diagnosis, answer: Review) -> str:
    """Return who the server says the user is, and what this user may not do."""
    if answer.denied is None:
        return f"the server, or a proxy in front of it, does not permit the request: {answer.problem}"
    if answer.username != ANONYMOUS:
        return f"it knows you as {answer.username!r}, who may not {answer.denied}"
    used = " + ".join(diagnosis.mechanism.used)
    if not used:
        return "requests are anonymous: the user has no credential that is used"
    return f"the credential ({used}) did not reach it: it knows you as {ANONYMOUS!r}"


def _forbidden_cures(diagnosis: Diagnosis, answer: Review) -> tuple[str, ...]:
    config, denied = diagnosis.config, answer.denied
    if denied is None:
        return ("ask whoever runs the server, or the proxy in front of it, for access",)
    if answer.username == ANONYMOUS:
        if not diagnosis.mechanism.used:
            return _unauthorized_cures(diagnosis)
        return (
            "check what is between you and the server: a proxy or load balancer that ends TLS drops certificates",
        )
    grant = f"let an administrator bind {answer.username!r} to a role (RBAC) that permits it"
    if config.impersonate:
        user = f"user {config.user_name!r} in {config.user_origin}"
        return (grant, f"or remove the impersonation of {config.impersonate!r} from {user}")
    return (
        f"{grant}, such as the cluster role system:basic-user, which every authenticated user has by default",
        "the credential is valid: a new login changes nothing",
    )


def _cures(diagnosis: Diagnosis) -> tuple[str, ...]:
    config, error = diagnosis.config, _underlying(diagnosis.error)
    if diagnosis.stage is ReasonStage.POLICY:
        if diagnosis.distrust is not None:
            file = diagnosis.distrust.file
            return (f"check {file}; then make it yours alone (chown, chmod go-w), or pass --trust",)
        return (f"correct the policy in {diagnosis.kuberc_path}, or name a program that it allows",)
    if diagnosis.stage is ReasonStage.SERVER:
        return (_CHECK_NETWORK, _LOG_IN) if _why_expired(diagnosis) else (_CHECK_NETWORK,)
    if diagnosis.stage is ReasonStage.PLUGIN and isinstance(error, PluginError):
        return _plugin_cures(diagnosis, error)
    return (f"correct {diagnosis.owner} in {config.user_origin}",)


def _plugin_cures(diagnosis: Diagnosis, error: PluginError) -> tuple[str, ...]:
    config = diagnosis.config
    if error.kind is Kind.NOT_FOUND:
        command = f"the command of {diagnosis.owner} in {config.user_origin}"
        return (f"install the plugin, or correct {command}",)
    if isinstance(error, PluginTimeoutError):
        waits = "does it wait for input, for a browser, or for a server that does not answer?"
        slow = f"if it is only slow, raise the time limit: --timeout {2 * error.timeout_seconds:g}"
        return (f"{waits} {_by_hand(diagnosis)}", *_ask_for_terminal(diagnosis, error), slow)
    if isinstance(error, PluginExitError):
        if error.status < 0:
            return (_by_hand(diagnosis),)
        said = "do what the plugin says; if that does not help, " if error.stderr_tail else ""
        return (f"{said}{_LOG_IN}", _by_hand(diagnosis), *_ask_for_terminal(diagnosis, error))
    return (f"correct {diagnosis.owner} in {config.user_origin}",)


def _ask_for_terminal(diagnosis: Diagnosis, error: PluginError) -> tuple[str, ...]:
    """Return how the plugin gets a terminal, on which it can ask the user something while it runs."""
    config = diagnosis.config
    mode = config.exec.interactive_mode if config.exec is not None else ""
    if mode == IF_AVAILABLE:
        return ("it has no terminal here; to let it ask you something, use: keyferry kube whoami",)
    # The plugin of a ClusterProfile never gets one.
    if mode == NEVER and error.kind is Kind.TIMEOUT and diagnosis.choice is None:
        user = f"user {config.user_name!r} in {config.user_origin}"
        return (f"if it asks you for something, set interactiveMode of {user} to {IF_AVAILABLE}",)
    return ()


def _by_hand(diagnosis: Diagnosis) -> str:
    """Return the command that runs the plugin, with secrets masked."""
    plugin = diagnosis.config.exec
    if plugin is None:
        return ""
    words = (clean_path(plugin.command), *mask_arguments(plugin.args or ()))
    names = ", ".join(variable.name for variable in plugin.env)
    line = shlex.join(words).replace(f"'{MASK}'", MASK)
    return f"run it by hand: {line}" + (f" (with the {_whose(diagnosis)} {names})" if names else "")


def _whose(diagnosis: Diagnosis) -> str:
    return "kubeconfig's" if diagnosis.choice is None else "provider's"


def _underlying(error: KeyferryError | None) -> KeyferryError | None:
    return error.underlying or error if isinstance(error, ClusterAuthError) else error
