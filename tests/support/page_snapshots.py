"""Snapshots of an agent for tests of its page, of real providers on a stepped clock."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry.agent.access import AccessPolicy, Caller
from keyferry.agent.journal import CallerUsage, JournalEntry, RequestDecision, result_of_answer
from keyferry.agent.page.model import PageSnapshot
from keyferry.agent.providers import AgentProviders
from keyferry.agent.refresh import PlannedRefresh
from keyferry.agent.settings import AgentSettings
from keyferry.agent.state import AgentState, ReloadOutcome
from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from support.scripted import Clock

STARTED, NOW = 1_000_000.0, 1_000_500.0
VALUES: dict[str, str | int | bool] = {
    "providerConfig": "/etc/providers.yaml",
    "binDir": "/bin-dir",
    "watch": True,
}


def take(
    providers: AgentProviders,
    clock: Clock,
    *,
    planned: tuple[tuple[int, PlannedRefresh, int], ...] = (),
    reloads: tuple[ReloadOutcome, ...] = (ReloadOutcome(at=STARTED, is_applied=True, since=STARTED),),
    entries: tuple[JournalEntry, ...] = (),
    taken_over_at: float | None = None,
    config: AgentConfig = AgentConfig(),  # noqa: B008 - a value
    origins: Mapping[str, str] = {},
    socket_options: tuple[str, ...] = (),
) -> PageSnapshot:
    """Return a snapshot; the clock's instant is NOW."""
    settings = AgentSettings(
        values=VALUES,
        origins={**dict.fromkeys(VALUES, "default"), **origins},
        config=config,
        config_file="/etc/own.yaml",
    )
    state = AgentState(
        settings=settings, providers=providers, policy=AccessPolicy(own_uid=0), loaded_at=STARTED
    )
    return PageSnapshot(
        state=state,
        node="node",
        now=NOW,
        now_ns=clock.now,
        started=STARTED,
        socket="/run/agent.sock",
        taken_over_at=taken_over_at,
        is_refreshing=True,
        upcoming=lambda: list(planned),
        reloads=reloads,
        users={entry.caller.uid: CallerUsage(requests=2, refused=1, last_at=NOW) for entry in entries},
        entries=entries,
        entries_total=len(entries),
        last_of_user={entry.caller.uid: entry for entry in entries},
        accounts=("ns/seen",) if entries else (),
        socket_options=socket_options,
    )


def ask(providers: AgentProviders, image: str, uid: int = 1000) -> JournalEntry:
    """Look up an image; return what the journal says of it."""
    decision = RequestDecision(
        image=image, account="", provider="", result=result_of_answer(providers.lookup(image))
    )
    return JournalEntry(
        number=1,
        at=NOW,
        caller=Caller(uid=uid, gids=frozenset(), pid=1, program="/bin/\x1bclient"),
        decision=decision,
        seconds=0.0025,
    )
