"""Whether all is well: what is not, since when, and what to do about it."""

from __future__ import annotations

import os
import shlex

from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry.agent.page.snapshot import PageSnapshot
from keyferry.page.model import Health, HealthProblem, ProviderCard, ProviderState
from keyferry.page.wording import link_to

__all__ = ["judge_health"]

_WORDS = {
    ProviderState.FAILING: "fails, and nothing of it is cached",
    ProviderState.RENEWAL_FAILS: "fails; what it answered before is still served",
}


class _Dated(Value):
    problem: HealthProblem
    since: float


def judge_health(snapshot: PageSnapshot, providers: tuple[ProviderCard, ...]) -> Health:
    """Return whether all is well, and since when."""
    found = [*_of_process(snapshot), *_of_reloads(snapshot), *_of_providers(providers)]
    if not found and not providers:
        return Health(is_well=False, headline="No provider is configured", since=snapshot.reloads[-1].since)
    if not found:
        return Health(is_well=True, headline="All is well", since=_well_since(snapshot, providers))
    number = len(found)
    headline = f"{number} problem{'' if number == 1 else 's'}"
    return Health(
        is_well=False,
        headline=headline,
        since=min(each.since for each in found),
        problems=tuple(each.problem for each in found),
    )


def _of_process(snapshot: PageSnapshot) -> list[_Dated]:
    if snapshot.taken_over_at is None:
        return []
    text = "Another process has the socket now; this one serves only those who are connected to it"
    return [
        _Dated(
            problem=HealthProblem(text=text, cure=f"kill {os.getpid()}", link="/settings"),
            since=snapshot.taken_over_at,
        )
    ]


def _of_reloads(snapshot: PageSnapshot) -> list[_Dated]:
    last = snapshot.reloads[-1]
    if last.is_applied:
        return []
    settings = snapshot.state.settings
    configs = (settings.config_file, settings.text("providerConfig"))
    command = shlex.join(("keyferry", "lint", *filter(None, configs)))
    problem = HealthProblem(
        text="The new config is refused; the old one is in force", cure=command, link="/reloads"
    )
    return [_Dated(problem=problem, since=last.since)]


def _of_providers(providers: tuple[ProviderCard, ...]) -> list[_Dated]:
    return [
        _Dated(
            problem=HealthProblem(
                text=f"Provider {printable(card.name)} {_WORDS[card.state]}",
                cure=card.cure,
                link=link_to("providers", card.name),
            ),
            since=card.streak_since or 0.0,
        )
        for card in providers
        if card.state in _WORDS
    ]


def _well_since(snapshot: PageSnapshot, providers: tuple[ProviderCard, ...]) -> float:
    """Return when the last thing that was not well was put right."""
    # A provider that has never failed was well before its first run, too.
    recovered = [card.streak_since or 0.0 for card in providers if card.last_error_at is not None]
    return max(snapshot.started, snapshot.reloads[-1].since, *recovered)
