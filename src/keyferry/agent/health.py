"""Whether all is well with the agent, and what is not: the same for its page, its status, and doctor."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator

from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_user_info
from keyferry.agent.journal import without_output
from keyferry.agent.state import AgentState, ReloadOutcome
from keyferry.api.meta import format_time
from keyferry.errors import KeyferryError, PluginError
from keyferry.explain.cures import plugin_command
from keyferry.images.provider.counters import Counts
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.runs import LastFailure
from keyferry.images.provider.state import (
    JUDGED_RUNS,
    ProviderState,
    Standing,
    judged_failures,
    said_first,
    standing_of,
)
from keyferry.page.model import Health, HealthProblem, ProblemLevel
from keyferry.page.wording import counted, link_to

_SECOND = 1_000_000_000
# Pulls get no credential of a provider that fails and has nothing cached for them. All else is a warning: pulls work.
_LEVELS = {
    ProviderState.FAILING: ProblemLevel.BAD,
    ProviderState.RENEWAL_FAILS: ProblemLevel.WARNING,
    ProviderState.UNSTABLE: ProblemLevel.WARNING,
}


def judge_health(
    state: AgentState,
    last: ReloadOutcome,
    *,
    started: float,
    taken_over_at: float | None,
    wall: Callable[[int], float],
) -> Health:
    """Return whether all is well, and since when.

    *last* is the last load of the configs; *wall* turns an instant of the providers' clock into seconds since 1970.
    """
    providers = [(each, each.counters.read()) for each in state.providers.providers]
    found = [
        *_of_process(taken_over_at),
        *_of_reload(state, last),
        *_of_providers(state, providers, wall),
    ]
    if not found and not providers:
        return Health(headline="No provider is configured", since=last.since, is_idle=True)
    if not found:
        return Health(headline="All is well", since=_well_since(started, last, providers, wall))
    return Health(
        headline=_headline(found),
        since=min(each.since for each in found),
        problems=tuple(sorted(found, key=lambda each: each.level is not ProblemLevel.BAD)),
    )


def _headline(problems: list[HealthProblem]) -> str:
    bad = sum(each.level is ProblemLevel.BAD for each in problems)
    counts = ((bad, "problem"), (len(problems) - bad, "warning"))
    return ", ".join(counted(number, noun) for number, noun in counts if number)


def _of_process(taken_over_at: float | None) -> Iterator[HealthProblem]:
    if taken_over_at is not None:
        yield HealthProblem(
            level=ProblemLevel.WARNING,
            text="Another process has the socket now; this one serves only those who are connected to it",
            cure=f"kill {os.getpid()}",
            link="/settings",
            since=taken_over_at,
        )


def _of_reload(state: AgentState, last: ReloadOutcome) -> Iterator[HealthProblem]:
    if not last.is_applied:
        settings = state.settings
        configs = (settings.config_file, settings.text("providerConfig"))
        yield HealthProblem(
            level=ProblemLevel.WARNING,
            text="The new config is refused; the old one is in force",
            reason=printable(last.problems[0]) if last.problems else "",
            cure=shlex.join(("keyferry", "lint", *filter(None, configs))),
            link="/reloads",
            since=last.since,
        )


def _of_providers(
    state: AgentState, providers: list[tuple[Provider, Counts]], wall: Callable[[int], float]
) -> Iterator[HealthProblem]:
    for provider, counts in providers:
        found = standing_of(provider, counts)
        if found.state not in _LEVELS:
            continue
        yield HealthProblem(
            level=_LEVELS[found.state],
            text=f"Provider {printable(provider.name)} {_text(provider, counts, found)}",
            reason=reason_of(found.failure),
            cure=printable(cure_of(state, provider, found.failure)),
            link=link_to("providers", provider.name),
            since=wall(found.since_ns or 0),
        )


def _text(provider: Provider, counts: Counts, found: Standing) -> str:
    if found.state is ProviderState.UNSTABLE:
        return f"is unstable: {unstable_text(counts)}"
    if found.state is ProviderState.RENEWAL_FAILS:
        return "fails; what it answered before is still served"
    if counts.has_last_failed and not provider.has_answers():
        return "fails, and nothing of it is cached"
    newest, *others = found.unserved
    more = f" and {counted(len(others), 'other image')}" if others else ""
    served = "; others are served from the cache" if provider.has_answers() else ""
    return f"fails for {printable(hide_user_info(newest))}{more}{served}"


def unstable_text(counts: Counts) -> str:
    """Return how many of the runs that decide about it have failed."""
    judged = counts.recent[-JUDGED_RUNS:]
    return f"{judged_failures(judged)} of its last {len(judged)} runs failed"


def reason_of(last: LastFailure | None) -> str:
    """Return why a run failed: how it ended, and the first line that the plugin printed, masked.

    Only those may read it who may manage the agent, to whom its status tells the same.
    """
    return "" if last is None else printable(_reason(last.error))


def _reason(error: KeyferryError) -> str:
    what = without_output(error).message if isinstance(error, PluginError) else str(error)
    said = said_first(error)
    return f"{what}: {said}" if said else what


def cure_of(state: AgentState, provider: Provider, last: LastFailure | None) -> str:
    """Return the command that tells more about a failure; empty if there was none."""
    settings = state.settings
    if last is None:
        return ""
    places = settings.text("providerConfig"), settings.text("binDir")
    return plugin_command(last.error, provider.name, last.image, *places)


def _well_since(
    started: float,
    last: ReloadOutcome,
    providers: list[tuple[Provider, Counts]],
    wall: Callable[[int], float],
) -> float:
    """Return when the last thing that was not well was put right."""
    # A provider that has never failed was well before its first run, too.
    recovered = [
        wall(counts.streak_ns)
        for provider, counts in providers
        if provider.last_failure is not None and counts.streak_ns is not None
    ]
    return max(started, last.since, *recovered)


def health_fields(health: Health) -> dict[str, object]:
    """Return the health as the status document has it."""
    return {
        "level": health.level,
        "verdict": health.headline,
        "since": _time(health.since),
        "problems": [
            {
                "level": str(each.level),
                "text": each.text,
                "reason": each.reason,
                "next": each.cure,
                "since": _time(each.since),
            }
            for each in health.problems
        ],
    }


def _time(seconds: float) -> str:
    return format_time(int(seconds * _SECOND))
