"""The verdict of a diagnosis: whether the context works, the likely cause if it does not, and what to do."""

from keyferry._core.reasons import ReasonStage
from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.errors import ClusterAuthError, Kind

__all__ = ["ClusterVerdict", "Works", "find_verdict"]


class Works(WordEnum):
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
_CHECK_NETWORK = "check the network, the VPN and the proxy, and the address of the server in the kubeconfig"
_LOG_IN = "log in again with the tool that the plugin belongs to"


def find_verdict(diagnosis: Diagnosis, problem: str) -> ClusterVerdict:
    """Return the verdict; *problem* is the text of the step that failed, without secrets."""
    context, answer = f"context {diagnosis.config.context!r}", diagnosis.review
    if diagnosis.error is not None and diagnosis.stage is not None:
        text = f"{context} does not work: {_FAILURES.get(diagnosis.stage, 'a step failed')}"
        # A server that is reached would refuse it.
        late = _why_expired(diagnosis) if diagnosis.stage is ReasonStage.SERVER else ""
        return ClusterVerdict(
            Works.NO,
            text,
            f"{problem}; besides, {late}" if late else problem,
            (*_cures(diagnosis), *([_LOG_IN] if late else [])),
        )
    if answer is None:
        return ClusterVerdict(Works.UNKNOWN, f"{context} was not tried (--no-run)")
    if not diagnosis.is_accepted:
        text = f"{context} does not work: its server responded {answer.status}"
        return ClusterVerdict(Works.NO, text, _why_refused(diagnosis), _refusal_cures(diagnosis))
    if answer.status:
        return ClusterVerdict(Works.YES, f"{context} works, but its server cannot say who you are")
    return ClusterVerdict(Works.YES, f"{context} works: you are {answer.username!r}")


def _why_refused(diagnosis: Diagnosis) -> str:
    """Return the likely reason for which the server refuses the user."""
    pair, mechanism = diagnosis.key_pair, diagnosis.mechanism
    if not mechanism.used:
        return "requests are anonymous: the user has no credential that is used"
    if late := _why_expired(diagnosis):
        return late
    if pair is not None and pair.not_after_ns < diagnosis.now_ns:
        return f"the client certificate {diagnosis.ending(pair.not_after_ns)}"
    used = " + ".join(mechanism.used)
    if mechanism.ignored:
        return (
            f"{used} in the kubeconfig is no longer valid, and takes precedence over {mechanism.ignored[0]}"
        )
    return f"the credential ({used}) is no longer valid, or is for another cluster"


def _why_expired(diagnosis: Diagnosis) -> str:
    """Return that the plugin's credential has expired, or nothing if it has not."""
    credential = diagnosis.credential
    if not diagnosis.is_expired or credential is None or credential.expires_ns is None:
        return ""
    return f"the plugin answers with a credential that {diagnosis.ending(credential.expires_ns)}"


def _refusal_cures(diagnosis: Diagnosis) -> tuple[str, ...]:
    config = diagnosis.config
    if not diagnosis.mechanism.used:
        return (f"give user {config.user_name!r} a credential, and the cluster an https server",)
    if diagnosis.mechanism.ignored:
        used, plugin = " and ".join(diagnosis.mechanism.used), diagnosis.mechanism.ignored[0]
        return (
            f"remove {used} of user {config.user_name!r} from {config.user_origin}: then {plugin} is run",
        )
    if diagnosis.uses_plugin:
        return (_LOG_IN, f"check that user {config.user_name!r} is for cluster {config.cluster_name!r}")
    return (f"replace the credential of user {config.user_name!r} in {config.user_origin}",)


def _cures(diagnosis: Diagnosis) -> tuple[str, ...]:
    config, error = diagnosis.config, diagnosis.error
    if diagnosis.stage is ReasonStage.POLICY:
        if diagnosis.distrust is not None:
            file = diagnosis.distrust.file
            return (f"check {file}; then make it yours alone (chown, chmod go-w), or pass --trust",)
        return (f"correct the policy in {diagnosis.kuberc_path}, or name a program that it allows",)
    if diagnosis.stage is ReasonStage.SERVER:
        return (_CHECK_NETWORK,)
    cause = error.underlying or error if isinstance(error, ClusterAuthError) else error
    if diagnosis.stage is ReasonStage.PLUGIN and cause is not None:
        if cause.kind is Kind.NOT_FOUND:
            return (
                f"install the plugin, or correct the command of user {config.user_name!r} in {config.user_origin}",
            )
        if cause.kind in (Kind.EXIT, Kind.TIMEOUT):
            return (_LOG_IN,)
    return (f"correct user {config.user_name!r} in {config.user_origin}",)
