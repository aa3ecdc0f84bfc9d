"""Questions and phrases that several causes share: what was seen of an image, and what is found for it."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.secrets import redact
from keyferry.explain.evidence import AttemptKind
from keyferry.explain.explanation import Cure
from keyferry.explain.facts import Facts
from keyferry.explain.times import age_text, clock_text
from keyferry.images.keyring import Credential, SourceKind
from keyferry.images.reasons.traps import is_empty_login
from keyferry.images.reference import registry_of
from keyferry.pulls.failure_text import FailureKind

__all__ = [
    "all_of",
    "failed_text",
    "found_text",
    "has_credentials",
    "is_refusal",
    "is_unsure",
    "may_use",
    "next_check",
    "registry",
    "retry_text",
    "seen_text",
    "wait_cure",
    "who",
    "why_pulled",
]

_ABOUT_CREDENTIALS = (FailureKind.REFUSED, FailureKind.EXPIRED, FailureKind.HIDDEN)


def who(credential: Credential) -> str:
    """Return the user name and the source of a credential, as text for a message."""
    # A token may stand in the place of the user name.
    user = f"user {redact(credential.username)!r}" if credential.username else "no user name"
    if is_empty_login(credential):
        user = "an empty login"
    return f"{user} of {credential.source}"


def all_of(credentials: Sequence[Credential]) -> str:
    """Return one or several credentials that have the same fate, as text for a message."""
    first = who(credentials[0])
    return first if len(credentials) == 1 else f"all {len(credentials)} credentials, first {first}"


def registry(facts: Facts) -> str:
    """Return the registry of the image."""
    return registry_of(facts.answer.name)


def may_use(facts: Facts) -> bool | None:
    """Return whether the pod may use the image on the node without a pull; None if it is not there, or not known."""
    if facts.decision is None or not facts.decision.situation.image_ref:
        return None
    from keyferry.pulls.records.access import UseOutcome, judge_use

    use = judge_use(facts.decision, facts.answer.missing)
    return None if use is UseOutcome.UNKNOWN else use is UseOutcome.USE


def why_pulled(facts: Facts) -> str:
    """Return why an image that is on the node is pulled, to stand before what came of the pull; empty if it is not."""
    decision = facts.decision
    if decision is None or facts.is_always_pulled or may_use(facts) is not False:
        return ""
    policy = decision.policy.name
    return f"the image is on the node, but by policy {policy} this pod may not use it without a pull, which fails: "


def has_credentials(facts: Facts) -> bool:
    """Return whether a login is found that is not empty."""
    return not all(map(is_empty_login, facts.answer.credentials))


def is_unsure(facts: Facts) -> bool:
    """Return whether every credential is of a provider that lacked an input, so that the kubelet may get others."""
    unsure = {provision.provider for provision in facts.answer.provisions if provision.missing}
    return all(
        each.source.kind == SourceKind.PROVIDER and each.source.name in unsure
        for each in facts.answer.credentials
    )


def is_refusal(facts: Facts) -> bool:
    """Return whether the registry refused the last attempt."""
    failure = facts.evidence.last_attempt.failure
    return failure is not None and failure.kind in _ABOUT_CREDENTIALS


def seen_text(facts: Facts) -> str:
    """Return what the registry said in the last attempt and how long ago, in brackets; empty if none failed."""
    attempt = facts.evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return ""
    said = attempt.failure.detail if attempt.failure is not None and is_refusal(facts) else ""
    age = "" if attempt.at is None else age_text(attempt.at, facts.evidence.now)
    parts = ", ".join(filter(None, (said, age)))
    return f" ({parts})" if parts else ""


def failed_text(facts: Facts) -> str:
    """Return that the registry refused the last attempt, or that it failed, and when."""
    what = "the registry refused the kubelet" if is_refusal(facts) else "the last attempt failed"
    return f"{what}{seen_text(facts)}"


def found_text(facts: Facts) -> str:
    """Return which credentials are found."""
    first, *others = facts.credentials
    if not others:
        return f"a credential is found: {who(first)}"
    return f"{len(others) + 1} credentials are found; the first is {who(first)}"


def next_check(facts: Facts) -> tuple[Cure, ...]:
    """Return how to ask the registry, unless it was asked."""
    if facts.check is not None or not facts.command:
        return ()
    return (
        Cure(
            text=f"to check whether {registry(facts)} accepts it",
            lines=(f"{facts.command} --check-registry",),
        ),
    )


def retry_text(facts: Facts) -> str:
    """Return that the kubelet tries again, and by when."""
    at, now = facts.evidence.retried_by, facts.evidence.now
    when = "within five minutes" if at is None or at <= now else f"by {clock_text(at, now)}"
    return f"the kubelet tries again {when}"


def wait_cure(facts: Facts) -> Cure:
    """Return that there is only to wait."""
    return Cure(text=f"wait: {retry_text(facts)}")
