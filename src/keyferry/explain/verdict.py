"""The verdict of an explanation, in one line: yes, no, or cannot tell, and with what."""

from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import PullVerdict, verdict
from keyferry.images.credential import Credential, SourceKind
from keyferry.images.provider.provision import ProvisionOutcome
from keyferry.images.result import LookupOutcome, LookupResult
from keyferry.images.why.traps import is_empty_login

__all__ = ["Subject", "Verdict", "find_verdict", "who"]


class Subject(WordEnum):
    """The question that a verdict answers: has the kubelet a credential, can the image be pulled, or can it be used."""

    CREDENTIAL = "credential"
    PULL = "pull"
    USE = "use"


class Verdict(Value):
    """The answer to a question, as a word and in one line."""

    about: Subject
    outcome: PullVerdict
    text: str


def find_verdict(explanation: Explanation) -> Verdict:
    """Return whether the image can be pulled; without a check, whether the kubelet has a credential for it.

    For an image that is never pulled, return whether the one on the node can be used.
    """
    broken = explanation.unreadable
    if broken is not None:
        text = f"no image of the pod is pulled: pull secret {broken.namespace}/{broken.name} cannot be read"
        return Verdict(Subject.CREDENTIAL, PullVerdict.NO, text)
    if explanation.is_never_pulled:
        outcome, text = _without_a_pull(explanation)
        return Verdict(Subject.USE, outcome, f"{text}: the pod forbids to pull it (imagePullPolicy: Never)")
    if explanation.check is not None:
        return Verdict(Subject.PULL, explanation.check.verdict, verdict(explanation.check))
    outcome, text = _VERDICTS[explanation.answer.outcome](explanation.answer)
    return Verdict(Subject.CREDENTIAL, outcome, text)


def who(credential: Credential) -> str:
    """Return the user name and the source of a credential, as text for a message."""
    user = f"user {credential.username!r}" if credential.username else "no user name"
    if is_empty_login(credential):
        user = "an empty login"
    return f"{user} of {credential.source}"


def _without_a_pull(explanation: Explanation) -> tuple[PullVerdict, str]:
    decision = explanation.decision
    if decision is None:
        return PullVerdict.UNKNOWN, "cannot tell whether the image is on the node"
    # Imported here because records import many modules that other uses do not need.
    from keyferry.pulls.records.access import UseOutcome, judge_use

    if not decision.situation.image_ref:
        return PullVerdict.NO, "the image is not on the node"
    use = judge_use(decision, explanation.answer.missing)
    if use is UseOutcome.UNKNOWN:
        return PullVerdict.UNKNOWN, "cannot tell whether the pod may use the image on the node"
    if use is UseOutcome.USE:
        return PullVerdict.YES, "the pod may use the image on the node"
    return PullVerdict.NO, "the pod may not use the image on the node without a pull that verifies its access"


def _found(answer: LookupResult) -> tuple[PullVerdict, str]:
    first, *others = answer.credentials
    if all(map(is_empty_login, answer.credentials)):
        return _found_empty(answer)
    if not others:
        text = f"a credential is found: {who(first)}"
    else:
        text = f"{len(others) + 1} credentials are found; the first is {who(first)}"
    if _is_unsure(answer):
        return PullVerdict.UNKNOWN, f"{text}; the kubelet may get another in its place"
    return PullVerdict.YES, text


def _found_empty(answer: LookupResult) -> tuple[PullVerdict, str]:
    first, *others = answer.credentials
    text = "a login is found, but it is empty"
    if others:
        text = f"{len(others) + 1} logins are found, but all are empty"
    text = f"{text}: {first.source} has no user name and no password under {first.key!r}"
    if answer.missing:
        return PullVerdict.UNKNOWN, f"{text}; the kubelet may have others too"
    return PullVerdict.NO, text


def _is_unsure(answer: LookupResult) -> bool:
    """Return whether every credential is of a provider that lacked an input, so that the kubelet may get others."""
    unsure = {provision.provider for provision in answer.provisions if provision.missing}
    return all(
        each.source.kind == SourceKind.PROVIDER and each.source.name in unsure for each in answer.credentials
    )


def _unknown(answer: LookupResult) -> tuple[PullVerdict, str]:
    missing = "; ".join(map(str, answer.missing[:1]))
    return PullVerdict.UNKNOWN, f"cannot tell whether the kubelet has a credential: {missing}"


def _failed(answer: LookupResult) -> tuple[PullVerdict, str]:
    names = ", ".join(repr(failure.provider) for failure in answer.kubelet_failures)
    return PullVerdict.NO, f"no credential is found: provider {names} failed"


def _none(answer: LookupResult) -> tuple[PullVerdict, str]:
    answered = [each for each in answer.provisions if each.outcome is not ProvisionOutcome.SKIPPED]
    if answered:
        names = ", ".join(repr(each.provider) for each in answered)
        why = f"provider {names} matches the image, but returned none for it"
    elif answer.provisions:
        why = f"provider {answer.provisions[0].provider!r} matches the image, but is skipped"
    else:
        why = f"no provider, pull secret or docker config matches {answer.name}"
    return PullVerdict.NO, f"no credential is found: {why}"


_VERDICTS = {
    LookupOutcome.CREDENTIALS: _found,
    LookupOutcome.UNKNOWN: _unknown,
    LookupOutcome.ANONYMOUS_AFTER_FAILURE: _failed,
    LookupOutcome.ANONYMOUS: _none,
}
