"""What was decided on requests, in words for people, and who asked how often.

Nothing here has a credential, a token or what a plugin printed. All tables are bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from keyferry._core.values import Value
from keyferry.agent.access import Caller
from keyferry.errors import (
    KeyferryError,
    PluginError,
    PluginExitError,
    PluginTimeoutError,
)
from keyferry.images.answer import Answer, Provision, ProvisionOutcome
from keyferry.images.provider.agent import OUTCOMES
from keyferry.images.reference import ImageName

_MAX_ENTRIES = 1000
_MAX_USERS = 256
_MAX_ACCOUNTS = 500
# In the place of the users beyond that number.
_OTHER_USERS = -1
# How an answer was got, in the words of the protocol; the slowest first.
SOURCES = {outcome: word for word, outcome in OUTCOMES.items()}
_ORIGINS = {
    ProvisionOutcome.RAN: "the plugin was run",
    ProvisionOutcome.SHARED: "the run of another lookup",
    ProvisionOutcome.CACHED: "from the cache",
}


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

    *providers* are those that answered, from wherever, or failed, and *failures* those that failed, and how.
    *missing_rule* is the list of rules in the agent's config of which none allows the request: access or manage; empty
    if no rule is missing.
    """

    outcome: DecisionOutcome
    source: str
    reason: str
    providers: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    missing_rule: str = ""


class RequestDecision(Value):
    """A request about an image, and its result; *provider* is the one that was asked for, empty for all."""

    image: str
    account: str
    provider: str
    result: DecisionResult


NO_PROVIDER = DecisionResult(
    outcome=DecisionOutcome.NO_MATCH, source="", reason="no provider matches the image"
)


def own_words(error: KeyferryError) -> str:
    """Return the message of an error without what a plugin printed or a token says."""
    if isinstance(error, PluginError):
        return str(without_output(error))
    return "the service account or its token cannot be used"


def without_output(error: PluginError) -> PluginError:
    """Return the same error without what the plugin printed."""
    if isinstance(error, PluginExitError):
        return PluginExitError(error.plugin, error.status)
    if isinstance(error, PluginTimeoutError):
        return PluginTimeoutError(error.plugin, error.timeout_seconds, was_killed=error.was_killed)
    return error


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
    return DecisionResult(
        outcome=outcome,
        source=source,
        reason=reason,
        providers=_taking_part(provisions),
        failures=_failures(provisions),
    )


def _taking_part(provisions: Iterable[Provision]) -> tuple[str, ...]:
    """Return the providers that answered or failed; not those that were skipped."""
    return tuple([each.provider for each in provisions if each.outcome in SOURCES or each.error is not None])


def _failures(provisions: Iterable[Provision]) -> tuple[tuple[str, str], ...]:
    return tuple([(each.provider, _short(each.error)) for each in provisions if each.error is not None])


def _short(error: KeyferryError) -> str:
    """Return how a plugin failed, without its name and what it printed."""
    return without_output(error).message if isinstance(error, PluginError) else own_words(error)


def result_of_refusal(uid: int, what: str, missing_rule: str) -> DecisionResult:
    """Return the result of a request that a user may not make, since no rule of a list allows it."""
    return DecisionResult(
        outcome=DecisionOutcome.REFUSED, source="", reason=f"user {uid} {what}", missing_rule=missing_rule
    )


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
        failures=_failures((provision,)),
    )


def _say(provision: Provision, *, is_useful: bool) -> str:
    origin = _ORIGINS.get(provision.outcome)
    if origin is not None:
        text = (
            origin
            if is_useful
            else f"{origin}, without a credential{' for the image' if provision.auth else ''}"
        )
    elif provision.skipped:
        text = f"skipped: {provision.skipped}"
    elif provision.error is not None:
        text = f"failed: {own_words(provision.error)}"
    else:
        text = "it needs a service account"
    return f"provider {provision.provider!r}: {text}"


class JournalEntry(Value):
    """One request: its number, when it was answered in seconds since 1970, by whom it was made, and its decision."""

    number: int
    at: float
    caller: Caller
    decision: RequestDecision
    seconds: float


class Journal:
    """A bounded journal; it keeps nothing unless it is on, that is, unless somebody can look at it."""

    def __init__(self, *, is_on: bool, max_entries: int = _MAX_ENTRIES) -> None:
        self.is_on = is_on
        self.number = 0
        self._entries: deque[JournalEntry] = deque(maxlen=max_entries)
        self._last_of_user: dict[int, JournalEntry] = {}
        self._accounts: dict[str, None] = {}

    def add(self, caller: Caller, decision: RequestDecision, at: float, seconds: float) -> None:
        """Write an entry; the oldest one is dropped if there are too many."""
        self.number += 1
        entry = JournalEntry(number=self.number, at=at, caller=caller, decision=decision, seconds=seconds)
        self._entries.append(entry)
        if caller.uid in self._last_of_user or len(self._last_of_user) < _MAX_USERS:
            self._last_of_user[caller.uid] = entry
        if decision.account and decision.account not in self._accounts:
            if len(self._accounts) >= _MAX_ACCOUNTS:
                del self._accounts[next(iter(self._accounts))]
            self._accounts[decision.account] = None

    def newest_first(self) -> list[JournalEntry]:
        """Return all entries."""
        return list(self._entries)[::-1]

    def last_of(self, uid: int) -> JournalEntry | None:
        """Return the last entry of a user."""
        return self._last_of_user.get(uid)

    def accounts(self) -> list[str]:
        """Return the service accounts that callers have named, as ``namespace/name``."""
        return sorted(self._accounts)


class CallerUsage(Value):
    """The requests of one user: all, those refused, and the time of the last one, in seconds since 1970."""

    requests: int
    refused: int
    last_at: float


class Usage:
    """Counts requests by user and by status; users beyond a number are counted together, as -1."""

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        # Lookups that were refused since too many of the same user waited.
        self.too_many_lookups = 0
        self._by_user: dict[int, list[float]] = {}

    def count(self, uid: int, status: int, at: float) -> None:
        """Count one request, answered at this instant in seconds since 1970."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        own = self._by_user.get(uid)
        if own is None:
            if len(self._by_user) >= _MAX_USERS:
                uid = _OTHER_USERS
            own = self._by_user.setdefault(uid, [0, 0, 0.0])
        own[0] += 1
        own[1] += status in (403, 429)
        own[2] = at

    def users(self) -> dict[int, CallerUsage]:
        """Return the counts of every user."""
        return {
            uid: CallerUsage(requests=int(own[0]), refused=int(own[1]), last_at=own[2])
            for uid, own in self._by_user.items()
        }
