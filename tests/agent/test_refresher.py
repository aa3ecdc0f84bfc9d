"""Renewals run when the plan says so, in the background, and a failure leaves what is cached."""

from __future__ import annotations

import asyncio
import io
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry import PluginExitError
from keyferry.agent.log import AgentLog
from keyferry.agent.refresh import (
    MAX_PAUSE_NS,
    PlannedRefresh,
    Refresher,
    RefreshPlan,
    asked_pause_ns,
    pause_ns,
    refresh_at_ns,
)
from support.loops import in_loop
from support.scripted import SECOND, Clock, response
from support.scripted_agent import IMAGE, ScriptedAgent


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the loop and its threads."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


class Agent(ScriptedAgent):
    """An agent that renews its answers, as soon as it may."""

    def __init__(self) -> None:
        self.written, clock = io.StringIO(), Clock()
        self.refresher = Refresher(
            AgentLog(stream=self.written), 1 << 60, clock=clock, random_number=lambda: 0.0
        )
        super().__init__(response("old"), clock=clock, settings={"on_cached": self.refresher.note})

    @property
    def password(self) -> str:
        """What a lookup gets now."""
        return self.providers.lookup(IMAGE).credentials[0].password

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew what is due."""
        task = asyncio.create_task(self.refresher.run(lambda: self.providers))
        try:
            yield
        finally:
            task.cancel()


@in_loop
async def test_an_answer_is_renewed_in_the_background() -> None:
    """Lookups get the new credential although the old one is still valid."""
    agent = Agent()
    assert (await agent.providers.lookup_async(IMAGE)).credentials[0].password == "old"
    agent.plugin.answer = response("new")
    assert agent.password == "old"
    agent.clock.step(301)  # half of ten minutes
    async with agent.renewing():
        await until(lambda: agent.refresher.succeeded == 1)
    assert (agent.password, agent.plugin.runs, len(agent.refresher.plan)) == ("new", 2, 1)


def broken(_: object) -> NoReturn:
    raise RuntimeError("secret-word")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(PluginExitError("plugin", 3, "text", "why"), "exited with status 3", id="fails"),
        # An error that nobody foresaw is one more failure; its text, which could quote anything, is not logged.
        pytest.param(broken, "RuntimeError", id="breaks"),
    ],
)
@in_loop
async def test_a_failed_renewal_is_logged_and_tried_again_later(
    answer: PluginExitError | Callable[[object], NoReturn], words: str
) -> None:
    agent = Agent()
    agent.look_up(step=301)
    agent.plugin.answer = answer
    refresher = agent.refresher
    async with agent.renewing():
        await until(lambda: refresher.failed >= 1)
        assert agent.password == "old"
        agent.plugin.answer = response("new")
        agent.clock.step(1)
        await until(lambda: refresher.succeeded == 1)
    assert refresher.outcomes["plugin", True] == refresher.succeeded == 1
    assert refresher.outcomes["plugin", False] == refresher.failed >= 1
    written = agent.written.getvalue()
    assert ("refresh failed" in written, words in written, "secret-word" in written) == (True, True, False)


@in_loop
async def test_a_pause_that_a_server_asked_for_is_kept() -> None:
    """The plugin names it on its last line; without it, the first pause is at most a second."""
    agent = Agent()
    agent.look_up(step=301)
    agent.plugin.answer = PluginExitError("plugin", 1, "text", "ecr: busy\necr: retry after 90 s")
    async with agent.renewing():
        await until(lambda: agent.refresher.failed == 1)
    [(at_ns, _, failures)] = agent.refresher.plan.upcoming()
    assert (at_ns - agent.clock(), failures) == (90 * SECOND, 1)


@in_loop
async def test_a_provider_that_is_gone_is_not_renewed() -> None:
    agent = Agent()
    agent.look_up(step=301)
    agent.providers = type(agent.providers)([])
    async with agent.renewing():
        await until(lambda: len(agent.refresher.plan) == 0)
    assert agent.plugin.runs == 1


@pytest.mark.parametrize("turns", range(8))
@in_loop
async def test_it_ends_although_an_answer_arrives_at_the_same_moment(turns: int) -> None:
    """The end is not lost between the event and the waiting for it, at whichever turn of the loop it comes."""
    agent = Agent()
    task = asyncio.create_task(agent.refresher.run(lambda: agent.providers))
    await asyncio.sleep(0.01)
    agent.look_up()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=10)
    assert ended


HOUR = 3600 * SECOND
REFRESH = PlannedRefresh(provider="ecr", base="registry.example", image="registry.example/app")
numbers = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 1 << 60), st.integers(1, 1 << 50), numbers)
def test_a_renewal_is_between_half_and_nine_tenths_of_a_life(got: int, life: int, number: float) -> None:
    spent = refresh_at_ns(got, got + life, lambda: number) - got
    assert life // 2 - 1 <= spent <= life * 9 // 10 + 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("keyferry-ecr: retry after 30 s", 30),
        ("ecr: busy\necr: retry after 7 s", 7),
        ("ecr: retry after 7 s\necr: retry after 8 s", 8),
        ("ecr: retry after 999999 s", 3600),
        ("ecr: retry after 99999999999 s", 0),
        ("ecr: retry after 7 s\nsomething else", 0),
        ("one line: with a bar | ecr: retry after 7 s", 0),
        ("retry after 7 s", 0),
        (": retry after 7 s", 0),
        ("ecr: please retry after 7 s", 0),
        ("ecr: retry after -7 s", 0),
        ("ecr: retry after \u0667 s", 0),
        ("ecr: retry after 1.5 s", 0),
        ("", 0),
    ],
)
def test_the_pause_that_a_plugin_names_on_its_last_line(said: str, seconds: int) -> None:
    """In one form, and at most an hour."""
    assert asked_pause_ns(said) == seconds * SECOND


@given(st.integers(0, 10_000), numbers, st.integers(0, HOUR))
def test_a_pause_is_random_bounded_and_after_what_the_server_asks(
    failures: int, number: float, asked: int
) -> None:
    pause = pause_ns(failures, lambda: number, asked)
    assert asked <= pause <= asked + min(SECOND * 2**failures, MAX_PAUSE_NS)


def plan(number: float = 0.5, idle: int = 24 * HOUR) -> RefreshPlan:
    return RefreshPlan(lambda: number, idle)


def test_an_answer_is_renewed_once_when_it_is_due() -> None:
    made = plan()
    made.note(REFRESH, HOUR, 0)
    assert made.next_ns() == int(0.7 * HOUR)
    assert made.take_due(int(0.7 * HOUR) - 1) is None
    assert made.take_due(int(0.7 * HOUR)) == REFRESH
    assert made.take_due(int(0.7 * HOUR)) is None


def test_a_new_answer_replaces_the_plan_of_the_old_one() -> None:
    """An on-demand run meanwhile moves the renewal."""
    made = plan()
    made.note(REFRESH, HOUR, 0)
    made.note(REFRESH, 2 * HOUR, HOUR // 2)
    assert made.take_due(int(0.7 * HOUR)) is None
    assert len(made) == 1
    assert made.take_due(HOUR // 2 + int(1.5 * HOUR * 0.7)) == REFRESH


def test_answers_that_are_renewed_often_take_no_more_memory() -> None:
    made = RefreshPlan(Random(1).random, 24 * HOUR)  # noqa: S311 - jitter is no secret
    for number in range(1000):
        made.note(REFRESH, (1 + number) * HOUR, number * SECOND)
    assert len(pickle.dumps(made)) < 10_000


def test_failures_are_tried_again_until_the_answer_expires() -> None:
    """Each time after a longer pause; then it is forgotten, and the next lookup runs the plugin."""
    made, now, tries = plan(), 0, 0
    made.note(REFRESH, HOUR, now)
    while (following := made.next_ns()) is not None:
        now = following
        if made.take_due(now) is not None:
            tries += 1
            made.fail(REFRESH, now)
    assert 5 < tries < 30
    assert now < HOUR
    assert len(made) == 0


def test_an_answer_that_nobody_asks_for_is_left_to_expire() -> None:
    made = plan(idle=HOUR)
    made.note(REFRESH, 4 * HOUR, 0)
    assert made.take_due(int(2.8 * HOUR)) is None
    assert len(made) == 0
    made.note(REFRESH, 4 * HOUR, 0)
    made.use("ecr", "registry.example", 2 * HOUR)
    assert made.take_due(int(2.8 * HOUR)) == REFRESH


def test_use_is_remembered_across_renewals_and_renewals_are_no_use() -> None:
    made = plan(idle=HOUR)
    made.note(REFRESH, HOUR, 0)
    assert made.take_due(int(0.7 * HOUR)) == REFRESH
    made.note(REFRESH, int(0.7 * HOUR) + HOUR, int(0.7 * HOUR))
    assert made.take_due(int(1.4 * HOUR) + 1) is None


def test_short_answers_are_not_renewed() -> None:
    made = plan()
    made.note(REFRESH, 59 * SECOND, 0)
    assert (len(made), made.next_ns()) == (0, None)


def test_an_answer_that_is_no_longer_cached_is_forgotten() -> None:
    """A renewal that succeeds without a new cached answer ends the plan; a new answer is not ended by it."""
    made = plan()
    made.note(REFRESH, HOUR, 0)
    now = int(0.7 * HOUR)
    assert made.take_due(now) == REFRESH
    made.finish(REFRESH, now)
    assert len(made) == 0
    made.note(REFRESH, now + HOUR, now)
    made.finish(REFRESH, now)
    assert len(made) == 1


def test_removed_providers_are_forgotten() -> None:
    made = plan()
    made.note(REFRESH, HOUR, 0)
    made.forget(frozenset({"ecr"}))
    assert made.take_due(HOUR) is None


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5000), st.booleans()), max_size=60), st.integers()
)
def test_the_plan_stays_small_and_in_order(steps: list[tuple[int, int, bool]], seed: int) -> None:
    """Whatever happens, there is one renewal for each answer, never after its expiry and never early."""
    made, now = RefreshPlan(Random(seed).random, 24 * HOUR), 0  # noqa: S311 - jitter is no secret
    lives: dict[str, int] = {}
    for base, seconds, fails in steps:
        now += seconds * SECOND
        refresh = PlannedRefresh(provider="p", base=str(base), image=f"{base}/app")
        lives[str(base)] = now + 12 * HOUR
        made.note(refresh, lives[str(base)], now)
        while (due := made.take_due(now)) is not None:
            assert now < lives[due.base]
            if fails:
                made.fail(due, now)
            else:
                lives[due.base] = now + 12 * HOUR
                made.note(due, lives[due.base], now)
        assert len(made) <= len(lives)
        assert all(at <= lives[each.base] for at, each, _ in made.upcoming())
