"""How a provider does, and why it fails: one definition for the agent's page, its status, its metrics and doctor."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from keyferry.errors import KeyferryError, PluginError
from keyferry.images.provider.counters import Counts, RecentRun
from keyferry.images.provider.provider import Provider

# Of so many of the last runs, so many that failed make a provider unstable, although the last one did not fail.
JUDGED_RUNS = 10
UNSTABLE_FAILURES = 3
_TRACEBACK = "Traceback (most recent call last)"


class ProviderState(StrEnum):
    """How a provider does: unused until its plugin has run once; failing since its last run failed."""

    UNUSED = "unused"
    WELL = "well"
    UNSTABLE = "unstable"  # its last run did not fail, but several before it did
    RENEWAL_FAILS = "renewal-fails"  # what it answered is still valid, and served
    FAILING = "failing"
    NO_CREDENTIAL = "no-credential"  # its last answer has nothing for the image that it was asked for


def state_of(provider: Provider, counts: Counts) -> ProviderState:
    """Return the state of a provider, whose *counts* were read before."""
    if counts.has_last_failed:
        return ProviderState.RENEWAL_FAILS if provider.has_answers() else ProviderState.FAILING
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
