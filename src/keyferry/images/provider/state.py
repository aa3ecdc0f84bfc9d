"""How a provider does, and why it fails: one definition for the agent's page, its status, its metrics and doctor."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from keyferry._core.values import Value
from keyferry.errors import KeyferryError, PluginError
from keyferry.images.provider.counters import Counts, RecentRun
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.runs import LastFailure

# Of so many of the last runs, so many that failed make a provider unstable, although the last one did not fail.
JUDGED_RUNS = 10
UNSTABLE_FAILURES = 3
_TRACEBACK = "Traceback (most recent call last)"


class ProviderState(StrEnum):
    """How a provider does: unused until its plugin has run once."""

    UNUSED = "unused"
    WELL = "well"
    UNSTABLE = "unstable"  # its last run did not fail, but several before it did
    RENEWAL_FAILS = "renewal-fails"  # its last run failed; what it was for is still cached, and served
    FAILING = "failing"  # pulls of some image get nothing: its run failed, and nothing is cached for it
    NO_CREDENTIAL = "no-credential"  # its last answer has nothing for the image that it was asked for


class Standing(Value):
    """The state of a provider, and the failure to tell of it.

    *since_ns* is since when it fails, is unstable, or works; *unserved* are the images whose pulls get nothing.
    """

    state: ProviderState
    failure: LastFailure | None = None
    since_ns: int | None = None
    unserved: tuple[str, ...] = ()


def standing_of(provider: Provider, counts: Counts) -> Standing:
    """Return how a provider does, whose *counts* were read before."""
    failures = provider.unserved_failures()
    if failures:
        return Standing(
            state=ProviderState.FAILING,
            failure=failures[-1].failure,
            since_ns=min(each.since_ns for each in failures),
            unserved=tuple(dict.fromkeys(each.failure.image for each in reversed(failures))),
        )
    state, since_ns = _state_of_runs(provider, counts), counts.streak_ns
    if state is ProviderState.UNSTABLE:
        since_ns = next(each.at_ns for each in counts.recent[-JUDGED_RUNS:] if each.has_failed)
    return Standing(state=state, failure=provider.last_failure, since_ns=since_ns)


def _state_of_runs(provider: Provider, counts: Counts) -> ProviderState:
    if counts.has_last_failed:
        return ProviderState.RENEWAL_FAILS
    if judged_failures(counts.recent) >= UNSTABLE_FAILURES:
        return ProviderState.UNSTABLE
    if provider.last_answer is not None and not provider.last_answer.has_key:
        return ProviderState.NO_CREDENTIAL
    return ProviderState.WELL if counts.runs or provider.has_answers() else ProviderState.UNUSED


def judged_failures(recent: Sequence[RecentRun]) -> int:
    """Return how many of the runs that decide whether a provider is unstable have failed."""
    return sum(each.has_failed for each in recent[-JUDGED_RUNS:])


def said_first(error: KeyferryError) -> str:
    """Return the first line of what a plugin that failed printed, with secrets masked; empty if it printed nothing.

    A traceback's first line says nothing, so of one it is the last line.
    """
    lines = said_lines(error)
    if not lines:
        return ""
    return lines[-1] if lines[0].startswith(_TRACEBACK) else lines[0]


def said_lines(error: KeyferryError) -> list[str]:
    """Return the last lines that a plugin that failed printed, with secrets masked, as far as they are known."""
    return error.stderr_tail.splitlines() if isinstance(error, PluginError) else []
