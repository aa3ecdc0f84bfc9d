"""What was decided on a request, in words for people: never a credential, a token or what a plugin printed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from keyferry._core.values import Value
from keyferry.errors import (
    KeyferryError,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginStartError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import Answer, Provision, ProvisionOutcome
from keyferry.images.provider.agent import OUTCOMES
from keyferry.images.reference import ImageName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Asked(Protocol):
        """A question, as far as the journal tells of it."""

        def decided(self, result: DecisionResult) -> RequestDecision:
            """Return what the journal says of the question."""
            ...


__all__ = [
    "NO_PROVIDER",
    "SOURCES",
    "DecisionOutcome",
    "DecisionResult",
    "RequestDecision",
    "Undescribed",
    "describe_decision",
    "is_start_failure",
    "own_words",
    "result_of_answer",
    "result_of_provision",
    "result_of_refusal",
]

# How an answer was got, in the words of the protocol; the slowest first.
SOURCES = {outcome: word for word, outcome in OUTCOMES.items()}
_WAYS = {
    ProvisionOutcome.RAN: "the plugin was run",
    ProvisionOutcome.SHARED: "the run of another lookup",
    ProvisionOutcome.CACHED: "from the cache",
}
# Exit statuses of loaders, env and shells if a program or a library is not there or cannot be used.
_NOTHING_THERE = (126, 127)
# What glibc's loader, whose status is 1 then, says of a library that is too old for the program.
_TOO_OLD = "' not found (required by "


class DecisionOutcome(StrEnum):
    """What came of a request."""

    ANSWERED = "answered"
    NO_CREDENTIAL = "no-credential"  # a plugin answered, with nothing for the image
    NO_MATCH = "no-match"
    FAILED = "failed"
    REFUSED = "refused"
    EVICTED = "evicted"


class DecisionResult(Value):
    """What came of a request, how the answer was got (empty if there is none), why, and by which providers.

    *providers* are those that answered, from wherever, or failed.
    """

    outcome: DecisionOutcome
    source: str
    reason: str
    providers: tuple[str, ...] = ()


class RequestDecision(Value):
    """A request about an image, and its result; *provider* is the one that was asked for, empty for all."""

    image: str
    account: str
    provider: str
    result: DecisionResult


# A question, None if there is none to tell of, and its result: what the journal says is made of it only if it is kept.
Undescribed = tuple["Asked | None", DecisionResult]


def describe_decision(decision: Undescribed) -> RequestDecision:
    """Return what the journal says of a decision."""
    asked, result = decision
    return (
        RequestDecision(image="", account="", provider="", result=result)
        if asked is None
        else asked.decided(result)
    )


NO_PROVIDER = DecisionResult(
    outcome=DecisionOutcome.NO_MATCH, source="", reason="no provider matches the image"
)


def own_words(error: KeyferryError) -> str:
    """Return the message of an error without what a plugin printed or a token says."""
    if isinstance(error, PluginExitError):
        return str(PluginExitError(error.plugin, error.status))
    if isinstance(error, PluginTimeoutError):
        return str(PluginTimeoutError(error.plugin, error.timeout_seconds, was_killed=error.was_killed))
    if isinstance(error, PluginError):
        return str(error)
    return "the service account or its token cannot be used"


def is_start_failure(error: KeyferryError) -> bool:
    """Return whether a plugin, or what it needs, cannot be started in the agent's place, or not with this token.

    The agent's config may name another audience than the config of the caller, whose own plugin takes the token.
    """
    if isinstance(error, ServiceAccountError):
        return True
    if isinstance(error, PluginNotFoundError | PluginStartError):
        return error.seconds is None  # else it ran, and its end is unknown
    return isinstance(error, PluginExitError) and (
        error.status in _NOTHING_THERE or _is_of_loader(error.stderr_tail)
    )


def _is_of_loader(said: str) -> bool:
    """Return whether the last line of a program's standard error is the loader's word for a library that is too old."""
    return _TOO_OLD in said.rpartition("\n")[2]


def result_of_answer(answer: Answer) -> DecisionResult:
    """Return the result of a lookup by all providers."""
    provisions = answer.provisions
    if not provisions:
        return NO_PROVIDER
    useful = {credential.source.name for credential in answer.credentials}
    reason = "; ".join(_say(provision, is_useful=provision.provider in useful) for provision in provisions)
    got = {provision.outcome for provision in provisions}
    source = next((word for outcome, word in SOURCES.items() if outcome in got), "")
    if source and useful:
        outcome = DecisionOutcome.ANSWERED
    elif any(provision.error is not None for provision in provisions):
        outcome = DecisionOutcome.FAILED
    else:
        outcome = DecisionOutcome.NO_CREDENTIAL if source else DecisionOutcome.NO_MATCH
    return DecisionResult(outcome=outcome, source=source, reason=reason, providers=_taking_part(provisions))


def _taking_part(provisions: Iterable[Provision]) -> tuple[str, ...]:
    """Return the providers that answered or failed; not those that were skipped."""
    return tuple([each.provider for each in provisions if each.outcome in SOURCES or each.error is not None])


def result_of_refusal(uid: int, what: str) -> DecisionResult:
    """Return the result of a request that a user may not make."""
    return DecisionResult(outcome=DecisionOutcome.REFUSED, source="", reason=f"user {uid} {what}")


def result_of_provision(provision: Provision | None, image: ImageName) -> DecisionResult:
    """Return the result of a question to one provider about an image."""
    if provision is None:
        return DecisionResult(
            outcome=DecisionOutcome.NO_MATCH,
            source="",
            reason="no pattern of this provider matches the image",
        )
    source = SOURCES.get(provision.outcome, "")
    is_useful = bool(source and provision.auth and provision.keyring.lookup(image.repository))
    if provision.error is not None:
        outcome = DecisionOutcome.FAILED
    elif is_useful:
        outcome = DecisionOutcome.ANSWERED
    else:
        outcome = DecisionOutcome.NO_CREDENTIAL if source else DecisionOutcome.NO_MATCH
    return DecisionResult(
        outcome=outcome,
        source=source,
        reason=_say(provision, is_useful=is_useful),
        providers=_taking_part((provision,)),
    )


def _say(provision: Provision, *, is_useful: bool) -> str:
    way = _WAYS.get(provision.outcome)
    if way is None:
        way = provision.skipped and f"skipped: {provision.skipped}"
    if not way:
        error = provision.error
        way = "it needs a service account" if error is None else f"failed: {own_words(error)}"
    elif not provision.skipped and not is_useful:
        way = f"{way}, without a credential{' for the image' if provision.auth else ''}"
    return f"provider {provision.provider!r}: {way}"
