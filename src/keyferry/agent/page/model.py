"""The page's model: what the agent has at an instant, without a secret, a token, or anything that a plugin printed.

A snapshot is taken in the event loop; the model is made of it in another thread.
"""

from __future__ import annotations

import os
import pwd
import shlex
import time
from collections.abc import Callable
from functools import lru_cache

from keyferry import __version__
from keyferry._core.clock import monotonic_ns
from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry.agent.health import judge_health
from keyferry.agent.journal import CallerUsage, Journal, JournalEntry, Usage
from keyferry.agent.page.cards import make_card
from keyferry.agent.page.rules import explain_refusal, make_rows
from keyferry.agent.refresh import MIN_LIFE_NS, PlannedRefresh, Refresher, refresh_at_ns
from keyferry.agent.settings import NAMES, AgentSettings
from keyferry.agent.state import AgentState, Reloader, ReloadOutcome
from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.cache import CacheEntry
from keyferry.images.provider.provider import Provider
from keyferry.page.model import (
    CallerRow,
    DecisionRow,
    Life,
    PageModel,
    ReloadRow,
)

_MAX_LIVES = 10_000
_MILLISECONDS = 1000.0
# A wall clock that goes otherwise than the monotonic one by more than this was set.
_CLOCK_SECONDS = 0.5
_OTHER_USERS = -1
_SECOND = 1_000_000_000


class PageSnapshot(Value):
    """The agent at one instant, which is *now* in seconds since 1970 and *now_ns* on the monotonic clock.

    What takes long to collect and may be read from any thread is read later.
    """

    state: AgentState
    node: str  # the name of the machine
    now: float
    now_ns: int
    started: float
    socket: str
    taken_over_at: float | None
    is_refreshing: bool
    upcoming: Callable[[], list[tuple[int, PlannedRefresh, int]]]
    reloads: tuple[ReloadOutcome, ...]
    users: dict[int, CallerUsage]
    entries: tuple[JournalEntry, ...]
    entries_total: int
    last_of_user: dict[int, JournalEntry]
    accounts: tuple[str, ...]
    socket_options: tuple[str, ...] = ()

    def wall(self, instant_ns: int) -> float:
        """Return an instant of the monotonic clock in seconds since 1970."""
        return self.now + (instant_ns - self.now_ns) / _SECOND


class PageSource:
    """Takes snapshots of the agent; *sockets* and *taken_over_at* tell what only its process knows."""

    def __init__(
        self,
        reloader: Reloader,
        refresher: Refresher,
        usage: Usage,
        journal: Journal,
        *,
        sockets: Callable[[], list[str]],
        taken_over_at: Callable[[], float | None],
    ) -> None:
        self._reloader = reloader
        self._refresher = refresher
        self._usage = usage
        self._journal = journal
        self._sockets = sockets
        self._taken_over_at = taken_over_at
        self._started = time.time()

    @property
    def state(self) -> AgentState:
        """The state in force."""
        return self._reloader.state

    @property
    def socket_options(self) -> tuple[str, ...]:
        """The options with which other commands reach this agent."""
        sockets = self._sockets()
        return self.state.settings.socket_options(sockets[0]) if sockets else ()

    def take(self) -> PageSnapshot:
        """Return the agent at this instant."""
        users = self._usage.users()
        last = {uid: self._journal.last_of(uid) for uid in users}
        return PageSnapshot(
            state=self._reloader.state,
            node=os.uname().nodename,
            now=time.time(),
            now_ns=monotonic_ns(),
            started=self._started,
            socket=" ".join(self._sockets()),
            taken_over_at=self._taken_over_at(),
            is_refreshing=self._refresher.is_on,
            upcoming=self._refresher.plan.upcoming,
            reloads=tuple(self._reloader.history),
            users=users,
            entries=tuple(self._journal.newest_first()),
            entries_total=self._journal.number,
            last_of_user={uid: entry for uid, entry in last.items() if entry is not None},
            accounts=tuple(self._journal.accounts()),
            socket_options=self.socket_options,
        )


class ModelBuilder:
    """Builds models one after the other; rows that have not changed since the last one are the same objects."""

    def __init__(self) -> None:
        self._lives: dict[int, tuple[tuple[object, ...], Life]] = {}
        self._decisions: dict[int, DecisionRow] = {}
        self._rules: AgentConfig | None = None
        self._clock_offset = 0.0

    def forget(self) -> None:
        """Drop all rows."""
        self._lives, self._decisions = {}, {}

    def build(self, snapshot: PageSnapshot) -> PageModel:
        """Return what the page shows of the agent at this instant."""
        self._notice_clock(snapshot)
        self._notice_rules(snapshot.state.settings)
        providers = snapshot.state.providers
        planned = _Planned(snapshot)
        held = [(provider, provider.answers()) for provider in providers.providers]
        cards = tuple(
            make_card(
                snapshot.state,
                provider,
                cached=len(answers),
                next_refresh=_wall(snapshot, planned.first.get(provider.name)),
                wall=snapshot.wall,
            )
            for provider, answers in held
        )
        counts = [provider.counters.read() for provider in providers.providers]
        lives = self._make_lives(snapshot, held, planned)
        accounts = {*snapshot.accounts, *(life.account for life in lives if life.account)}
        return PageModel(
            version=__version__,
            node=snapshot.node,
            now=snapshot.now,
            started=snapshot.started,
            socket=snapshot.socket,
            health=judge_health(
                snapshot.state,
                snapshot.reloads[-1],
                started=snapshot.started,
                taken_over_at=snapshot.taken_over_at,
                wall=snapshot.wall,
            ),
            providers=cards,
            lives=lives,
            lives_total=sum(len(answers) for _, answers in held),
            decisions=self._make_decisions(snapshot),
            decisions_total=snapshot.entries_total,
            reloads=tuple(
                ReloadRow(at=each.at, is_applied=each.is_applied, problems=each.problems, notes=each.notes)
                for each in snapshot.reloads[::-1]
            ),
            callers=tuple(_caller(snapshot, uid) for uid in sorted(snapshot.users)),
            accounts=tuple(sorted(map(printable, accounts))),
            settings=_settings(snapshot),
            access=make_rows(snapshot.state.settings),
            lookups=sum(each.hits + each.shared + max(0, each.runs - each.renewals) for each in counts),
            from_cache=sum(each.hits for each in counts),
            failed_lately=sum(provider.failed_in_the_last_hour() for provider in providers.providers),
            place_options=_options(snapshot.state.settings.place_options()),
            socket_options=_options(snapshot.socket_options),
        )

    def _notice_clock(self, snapshot: PageSnapshot) -> None:
        """Drop the rows if the wall clock was set."""
        offset = snapshot.wall(0)
        if abs(offset - self._clock_offset) > _CLOCK_SECONDS:
            self.forget()
        self._clock_offset = offset

    def _notice_rules(self, settings: AgentSettings) -> None:
        """Drop the decisions if the agent's config is another one: they say what the rules do not allow."""
        if self._rules != settings.config:
            self._rules, self._decisions = settings.config, {}

    def _make_lives(
        self, snapshot: PageSnapshot, held: list[tuple[Provider, tuple[CacheEntry, ...]]], planned: _Planned
    ) -> tuple[Life, ...]:
        before, made = self._lives, dict[int, tuple[tuple[object, ...], Life]]()
        for provider, answers in held:
            for answer in answers[: _MAX_LIVES - len(made)]:
                renewal = planned.by_answer.get((provider.name, answer.base)) if answer.is_shared else None
                key = (answer.expires_ns, renewal)
                known = before.get(answer.number)
                if known is None or known[0] != key:
                    known = key, _life(snapshot, provider, answer, renewal)
                made[answer.number] = known
        self._lives = made
        return tuple([life for _, life in made.values()])

    def _make_decisions(self, snapshot: PageSnapshot) -> tuple[DecisionRow, ...]:
        before = self._decisions
        settings = snapshot.state.settings
        made = {
            entry.number: before.get(entry.number) or _decision(entry, settings) for entry in snapshot.entries
        }
        self._decisions = made
        return tuple(made.values())


def _options(words: tuple[str, ...]) -> str:
    return "".join(f" {printable(shlex.quote(word))}" for word in words)


class _Planned:
    """The planned renewals of answers, by provider and first key part, and the first one of each provider."""

    def __init__(self, snapshot: PageSnapshot) -> None:
        self.by_answer: dict[tuple[str, str], tuple[int, int]] = {}
        self.first: dict[str, int] = {}
        if snapshot.is_refreshing:
            for at_ns, refresh, failures in snapshot.upcoming():
                self.by_answer[refresh.provider, refresh.base] = at_ns, failures
                self.first.setdefault(refresh.provider, at_ns)


def _wall(snapshot: PageSnapshot, instant_ns: int | None) -> float | None:
    return None if instant_ns is None else snapshot.wall(instant_ns)


def _life(
    snapshot: PageSnapshot, provider: Provider, held: CacheEntry, renewal: tuple[int, int] | None
) -> Life:
    """Return the life of an answer; *renewal* is its planned instant and the failures before it."""
    expires_ns, provision = held.expires_ns, held.provision
    got_ns = expires_ns if provision.got_ns is None else provision.got_ns
    refresh_from: float | None = None
    refresh_until: float | None = None
    refresh_at: float | None = None
    if renewal is not None and expires_ns - got_ns >= MIN_LIFE_NS:
        # The ends of the same window that the instant was chosen from.
        first_ns = refresh_at_ns(got_ns, expires_ns, lambda: 0.0)
        last_ns = refresh_at_ns(got_ns, expires_ns, lambda: 1.0)
        refresh_from, refresh_until = snapshot.wall(first_ns), snapshot.wall(last_ns)
        refresh_at = snapshot.wall(renewal[0])
    return Life(
        identifier=held.number,
        provider=provider.name,
        scope=printable(held.scope),
        account=printable(account_text(provision.account)),
        got=snapshot.wall(got_ns),
        expires=snapshot.wall(expires_ns),
        refresh_from=refresh_from,
        refresh_until=refresh_until,
        refresh_at=refresh_at,
        failures=0 if renewal is None else renewal[1],
        credentials=len(provision.auth),
    )


def account_text(account: ServiceAccountRef | None) -> str:
    """Return a service account as it is shown; empty if there is none."""
    return "" if account is None else f"{account.namespace}/{account.name}"


def _decision(entry: JournalEntry, settings: AgentSettings) -> DecisionRow:
    decision, result = entry.decision, entry.decision.result
    return DecisionRow(
        identifier=entry.number,
        at=entry.at,
        uid=entry.caller.uid,
        program=printable(entry.caller.program),
        image=printable(decision.image),
        account=printable(decision.account),
        # As they are, like the names of the cards: templates make them harmless.
        providers=result.providers or ((decision.provider,) if decision.provider else ()),
        outcome=str(result.outcome),
        source=result.source,
        reason=printable(result.reason),
        failures=tuple(f"{name} · {printable(how)}" for name, how in result.failures),
        milliseconds=entry.seconds * _MILLISECONDS,
        refusal=explain_refusal(settings, entry.caller, decision),
    )


def _caller(snapshot: PageSnapshot, uid: int) -> CallerRow:
    used, last = snapshot.users[uid], snapshot.last_of_user.get(uid)
    return CallerRow(
        uid=uid,
        name=_user_name(uid),
        program="" if last is None else printable(last.caller.program),
        requests=used.requests,
        refused=used.refused,
        last_at=used.last_at,
        last_image="" if last is None else printable(last.decision.image),
    )


@lru_cache(maxsize=512)
def _user_name(uid: int) -> str:
    """Return the name of a user; empty if it has none here."""
    if uid == _OTHER_USERS:
        return "all others"
    try:
        return printable(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return ""


def _settings(snapshot: PageSnapshot) -> tuple[tuple[str, str, str], ...]:
    settings = snapshot.state.settings
    return tuple(
        (name, printable(settings.shown(name)), printable(settings.origins[name]))
        for name in NAMES
        if name in settings.values
    )
