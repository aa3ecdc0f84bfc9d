"""Renewals run when the plan says so, in the background, and a failure leaves what is cached."""

from __future__ import annotations

import asyncio
import io
from typing import NoReturn

from keyferry.agent.log import AgentLog
from keyferry.agent.refresh import Refresher
from keyferry.errors import PluginExitError
from keyferry.images.lookup import Providers
from keyferry.images.provider.provider import Provider
from support.scripted import Clock, Scripted, configured, response

IMAGE = "reg.io/app"


async def until(condition: object) -> None:
    """Wait for the loop and its threads."""
    assert callable(condition)
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def world(plugin: Scripted) -> tuple[Clock, Refresher, Providers, io.StringIO]:
    clock, log = Clock(), io.StringIO()
    refresher = Refresher(AgentLog(stream=log), 1 << 60, clock=clock, random_number=lambda: 0.0)
    asked = Providers([Provider(configured(), plugin, clock=clock, on_cached=refresher.note)], clock=clock)
    return clock, refresher, asked, log


def test_an_answer_is_renewed_in_the_background() -> None:
    """Lookups get the new credential although the old one is still valid."""
    plugin = Scripted(response("old"))
    clock, refresher, asked, _ = world(plugin)

    async def run() -> None:
        await asked.lookup_async(IMAGE)
        assert (await asked.lookup_async(IMAGE)).credentials[0].password == "old"
        plugin.answer = response("new")
        clock.step(301)  # half of ten minutes
        task = asyncio.create_task(refresher.run(lambda: asked))
        await until(lambda: refresher.succeeded == 1)
        assert asked.lookup(IMAGE).credentials[0].password == "new"
        assert len(refresher.plan) == 1
        task.cancel()

    asyncio.run(run())
    assert plugin.runs == 2


def test_a_failed_renewal_is_logged_and_tried_again_later() -> None:
    plugin = Scripted(response("old"))
    clock, refresher, asked, log = world(plugin)

    async def run() -> None:
        asked.lookup(IMAGE)
        plugin.answer = PluginExitError("plugin", 3, "text", "why")
        clock.step(301)
        task = asyncio.create_task(refresher.run(lambda: asked))
        await until(lambda: refresher.failed >= 1)
        assert asked.lookup(IMAGE).credentials[0].password == "old"
        plugin.answer = response("new")
        clock.step(1)
        await until(lambda: refresher.succeeded == 1)
        task.cancel()

    asyncio.run(run())
    assert refresher.outcomes["plugin", True] == refresher.succeeded == 1
    assert refresher.outcomes["plugin", False] == refresher.failed >= 1
    assert "refresh failed" in log.getvalue()
    assert "exited with status 3" in log.getvalue()


def test_a_pause_that_a_server_asked_for_is_kept() -> None:
    """The plugin names it on its last line; without it, the first pause is at most a second."""
    plugin = Scripted(response("old"))
    clock, refresher, asked, _ = world(plugin)

    async def run() -> None:
        asked.lookup(IMAGE)
        plugin.answer = PluginExitError("plugin", 1, "text", "ecr: busy\necr: retry after 90 s")
        clock.step(301)
        task = asyncio.create_task(refresher.run(lambda: asked))
        await until(lambda: refresher.failed == 1)
        [(at_ns, _, failures)] = refresher.plan.upcoming()
        assert (at_ns - clock(), failures) == (90_000_000_000, 1)
        task.cancel()

    asyncio.run(run())


def test_a_renewal_that_breaks_is_tried_again_too() -> None:
    """An error that nobody foresaw is one more failure; its text, which could quote anything, is not logged."""
    plugin = Scripted(response("old"))
    clock, refresher, asked, log = world(plugin)

    def broken(_: object) -> NoReturn:
        raise RuntimeError("secret-word")

    async def run() -> None:
        asked.lookup(IMAGE)
        plugin.answer = broken
        clock.step(301)
        task = asyncio.create_task(refresher.run(lambda: asked))
        await until(lambda: refresher.failed >= 1)
        plugin.answer = response("new")
        clock.step(1)
        await until(lambda: refresher.succeeded == 1)
        task.cancel()

    asyncio.run(run())
    assert "RuntimeError" in log.getvalue()
    assert "secret-word" not in log.getvalue()


def test_a_provider_that_is_gone_is_not_renewed() -> None:
    plugin = Scripted(response("old"))
    clock, refresher, asked, _ = world(plugin)

    async def run() -> None:
        asked.lookup(IMAGE)
        clock.step(301)
        task = asyncio.create_task(refresher.run(lambda: Providers([])))
        await until(lambda: len(refresher.plan) == 0)
        task.cancel()

    asyncio.run(run())
    assert plugin.runs == 1


def test_it_ends_although_an_answer_arrives_at_the_same_moment() -> None:
    """The end is not lost between the event and the waiting for it, at whichever turn of the loop it comes."""

    async def end_after(turns: int) -> bool:
        _, refresher, asked, _ = world(Scripted(response("old")))
        task = asyncio.create_task(refresher.run(lambda: asked))
        await asyncio.sleep(0.01)
        asked.lookup(IMAGE)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        ended, _ = await asyncio.wait([task], timeout=1)
        task.cancel()
        return bool(ended)

    assert [turns for turns in range(8) if not asyncio.run(end_after(turns))] == []
