"""Many lookups at once: threads, tasks and forks share runs, and nobody waits for longer than they said."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from keyferry import Answer, Providers
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import PluginError, PluginExitError, PluginTimeoutError
from keyferry.images.answer import ProvisionOutcome
from keyferry.images.provider.provider import Provider
from support.plugins import PATIENCE_SECONDS, exit_code_in_fork, wait_until
from support.scripted import Clock, Scripted, cache_entries, configured, response

RAN, SHARED, FAILED = ProvisionOutcome.RAN, ProvisionOutcome.SHARED, ProvisionOutcome.FAILED
CACHED = ProvisionOutcome.CACHED
Response = CredentialProviderResponse | PluginError


def answering(kind: str = "Registry", cache_seconds: float = 600) -> CredentialProviderResponse:
    return response(cache_key_type=kind, cache_seconds=cache_seconds, keys=("*.io",))


class CountingClock(Clock):
    """A clock that knows how often it was read, and so how far lookups have come.

    A provider reads it under the lock under which it then looks for a run to wait for, so who has read it cannot miss
    a run that goes on.
    """

    readings = 0

    def __call__(self) -> int:
        """Return the time, and count the reading."""
        self.readings += 1
        return super().__call__()


class World:
    """Providers of a single plugin for every registry of ``.io``, whose runs wait at a gate."""

    def __init__(
        self,
        answer: Response | Callable[[CredentialProviderRequest], Response] | None = None,
        *,
        coalesce: bool = True,
        timeout_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.answer = answer or answering()
        self.gate = threading.Event()
        self.plugin = Scripted(self._run)
        self.clock = CountingClock()
        self.provider = Provider(
            configured(match_images=("*.io",)),
            self.plugin,
            clock=self.clock,
            coalesce=coalesce,
            timeout_seconds=timeout_seconds,
        )
        self.providers = Providers([self.provider])

    def _run(self, request: CredentialProviderRequest) -> Response:
        assert self.gate.wait(PATIENCE_SECONDS)
        return self.answer(request) if callable(self.answer) else self.answer

    @property
    def runs(self) -> list[str]:
        """The images that the plugin was run for."""
        return [request.image for request in self.plugin.requests]

    def look_up_at_once(self, image: str) -> Answer:
        """Look an image up while the gate is open."""
        self.gate.set()
        answer = self.providers.lookup(image)
        self.gate.clear()
        return answer

    @contextmanager
    def asking(self, *images: str) -> Iterator[list[Future[Answer]]]:
        """Look images up in threads of their own, the first one first; the gate opens at the end of the block.

        The block begins when all of them have begun to run the plugin, or to wait for a run.
        """
        before = self.clock.readings
        with ThreadPoolExecutor(len(images)) as pool:
            try:
                futures = [pool.submit(self.providers.lookup, images[0])]
                wait_until(lambda: self.clock.readings > before, "the first lookup")
                futures += [pool.submit(self.providers.lookup, image) for image in images[1:]]
                wait_until(lambda: self.clock.readings == before + len(images), "the lookups")
                yield futures
            finally:
                self.gate.set()


def images(count: int) -> list[str]:
    """Names of different images of one registry."""
    return [f"reg.io/app{number}" for number in range(count)]


def outcome(answer: Answer) -> ProvisionOutcome:
    return answer.provisions[0].outcome


def users(answers: Iterable[Answer]) -> Counter[tuple[str, ...]]:
    """Which user names were found, and how often."""
    return Counter(tuple(credential.username for credential in answer.credentials) for answer in answers)


# Who shares a run


@pytest.mark.parametrize("kind", ["Registry", "Global"])
def test_many_threads_share_one_run(kind: str) -> None:
    world = World(answering(kind))
    with world.asking(*images(200)) as futures:
        pass
    answers = [future.result() for future in futures]
    assert world.runs == ["reg.io/app0"]
    assert users(answers) == {("user",): 200}
    assert Counter(map(outcome, answers)) == {RAN: 1, SHARED: 199}
    counts = world.provider.counters.read()
    assert (counts.runs, counts.shared, counts.hits) == (1, 199, 0)


def test_many_tasks_share_one_run_and_do_not_block_the_loop() -> None:
    """Many more than there are threads; another task of the loop lets the plugin end."""
    world = World()

    async def ask() -> list[Answer]:
        lookups = [asyncio.ensure_future(world.providers.lookup_async(name)) for name in images(300)]
        await asyncio.to_thread(wait_until, lambda: world.runs, "the run")
        world.gate.set()
        return await asyncio.gather(*lookups)

    assert users(asyncio.run(ask())) == {("user",): 300}
    assert len(world.runs) == 1


@pytest.mark.parametrize(
    ("answer", "coalesce", "second", "outcomes", "runs"),
    [
        pytest.param(answering(), True, "b", (RAN, SHARED), 1, id="of one registry"),
        pytest.param(answering("Image"), True, "b", (RAN, RAN), 2, id="for the image alone"),
        pytest.param(answering(), False, "b", (RAN, RAN), 2, id="without coalescing"),
        pytest.param(answering(), False, "a", (RAN, SHARED), 1, id="without coalescing, the same image"),
        pytest.param(answering("Image", 0), True, "a", (RAN, SHARED), 1, id="an answer that is not kept"),
        pytest.param(PluginExitError("p", 1), True, "a", (FAILED, FAILED), 1, id="failed, the same image"),
        pytest.param(PluginExitError("p", 1), True, "b", (FAILED, FAILED), 2, id="failed, another image"),
        pytest.param(
            PluginTimeoutError("p", 60), True, "a", (FAILED, FAILED), 1, id="timed out, with as much time"
        ),
        pytest.param(
            PluginTimeoutError("p", 1), True, "a", (FAILED, FAILED), 2, id="timed out, with less time"
        ),
    ],
)
def test_a_run_under_way_is_shared_by_those_for_whom_its_answer_is(
    answer: Response, coalesce: bool, second: str, outcomes: tuple[ProvisionOutcome, ...], runs: int
) -> None:
    """As in the kubelet, the same image shares all but the time-out of who had less time; others share answers."""
    world = World(answer, coalesce=coalesce)
    with world.asking("reg.io/a", f"reg.io/{second}") as futures:
        pass
    assert tuple(outcome(future.result()) for future in futures) == outcomes
    assert world.runs == ["reg.io/a", f"reg.io/{second}"][:runs]


@pytest.mark.parametrize(
    ("answer", "before", "together"),
    [
        pytest.param(answering("Image"), ["reg.io/first"], ["reg.io/a", "reg.io/b"], id="images"),
        pytest.param(answering(), [], ["a.io/x", "b.io/x"], id="registries"),
    ],
)
def test_runs_that_cannot_be_shared_overlap(answer: Response, before: list[str], together: list[str]) -> None:
    """Images do so from the moment at which it is known that an answer is for one image."""
    world = World(answer)
    for image in before:
        world.look_up_at_once(image)
    with world.asking(*together):
        wait_until(lambda: len(world.runs) == len(before) + 2, "both runs")


def test_that_answers_are_for_everything_is_remembered_when_they_have_expired() -> None:
    world = World(answering("Global"))
    world.look_up_at_once("a.io/x")
    world.clock.step(601)
    with world.asking("b.io/x", "c.io/x") as futures:
        pass
    assert [outcome(future.result()) for future in futures] == [RAN, SHARED]


def test_the_end_of_a_run_leaves_another_of_the_same_registry_to_be_found() -> None:
    """A run that began while another was under way ends, and who asks then still shares that other one."""
    world = World(answering("Image", 0))
    world.look_up_at_once("reg.io/first")  # so that runs of one registry do not wait for each other
    world.answer = answering("Registry", 0)
    slow_gate = world.gate
    with world.asking("reg.io/slow") as [slow]:
        wait_until(lambda: len(world.runs) == 2, "the slow run")
        world.gate = threading.Event()
        assert outcome(world.look_up_at_once("reg.io/quick")) is RAN  # and now they do again
        with world.asking("reg.io/late") as [late]:
            slow_gate.set()
            assert outcome(slow.result()) is RAN
            assert outcome(late.result()) is SHARED


def test_a_run_that_breaks_leaves_its_waiters_to_themselves() -> None:
    """Who waited for a run that ended without an answer makes one of their own."""

    def break_once(_: CredentialProviderRequest) -> Response:
        if len(world.runs) == 1:
            raise MemoryError
        return answering()

    world = World(break_once)
    with world.asking("reg.io/a", "reg.io/b") as [broken, waiter]:
        pass
    assert isinstance(broken.exception(), MemoryError)
    assert outcome(waiter.result()) is RAN


def test_many_who_evict_the_same_credential_cause_one_run() -> None:
    """When every puller of a node is refused at once, the plugin runs once more and not a hundred times."""
    world = World()
    (credential,) = world.look_up_at_once("reg.io/a").credentials
    with ThreadPoolExecutor(50) as pool:
        evicted = list(pool.map(lambda _: world.providers.evict("reg.io/a", credential), range(50)))
    assert evicted.count(True) == 1
    with world.asking(*images(50)):
        pass
    assert len(world.runs) == 2


# Deadlines


def check_late(answer: Answer, seconds: float) -> None:
    """It is a failure of who did not wait, and of no plugin."""
    (failure,) = answer.failures
    assert isinstance(failure.error, PluginTimeoutError)
    assert (failure.error.timeout_seconds, failure.error.was_killed) == (seconds, False)
    assert "waiting for other lookups" in str(failure.error)


@pytest.mark.parametrize("image", ["reg.io/a", "reg.io/b"], ids=["the same image", "another of its registry"])
def test_who_waits_for_anothers_run_waits_no_longer_than_they_said(image: str) -> None:
    """They get a failure that says so, and the run goes on for who started it."""
    world = World()
    with world.asking("reg.io/a") as [first]:
        for seconds in (0.0, 0.1):
            check_late(world.providers.lookup(image, timeout_seconds=seconds), seconds)
        assert world.provider.counters.read().failures == {"timeout": 2}
        assert not first.done()
    assert outcome(first.result()) is RAN
    assert outcome(world.providers.lookup(image, timeout_seconds=0.1)) is CACHED


def test_without_a_deadline_of_ones_own_the_configured_one_counts() -> None:
    """Another may have given the run an hour."""
    world = World(timeout_seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(world.providers.lookup, "reg.io/a", timeout_seconds=3600.0)
        wait_until(lambda: world.runs, "the run")
        late = world.providers.lookup("reg.io/a")
        world.gate.set()
    check_late(late, 0.1)


@pytest.mark.parametrize("patient", [1, 70], ids=["threads are free", "no thread is free"])
def test_tasks_with_little_time_wait_neither_for_a_run_nor_for_a_thread(patient: int) -> None:
    """Although there are more of them than threads, and those who have much time may take every thread."""
    world = World(answering("Image"))

    async def ask() -> list[Answer]:
        waiting = [
            asyncio.ensure_future(world.providers.lookup_async(f"reg.io/patient{number}"))
            for number in range(patient)
        ]
        await asyncio.to_thread(wait_until, lambda: world.runs, "a run")
        try:
            late = await asyncio.gather(
                *(world.providers.lookup_async(name, timeout_seconds=0.2) for name in images(200))
            )
            assert not any(task.done() for task in waiting)
        finally:
            world.gate.set()
        assert users(await asyncio.gather(*waiting)) == {("user",): patient}
        return late

    for answer in asyncio.run(ask()):
        check_late(answer, 0.2)
    assert not set(images(200)) & set(world.runs)


# Cancelling


def test_a_cancelled_lookup_leaves_its_answer_to_the_next() -> None:
    """Who gives up waiting does not stop the plugin; what it answers is kept."""
    world = World()

    async def give_up() -> None:
        task = asyncio.ensure_future(world.providers.lookup_async("reg.io/a"))
        await asyncio.to_thread(wait_until, lambda: world.runs, "the run")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.gate.set()
        await asyncio.to_thread(wait_until, lambda: cache_entries(world.provider), "the answer")

    asyncio.run(give_up())
    assert outcome(world.providers.lookup("reg.io/a")) is CACHED


def test_a_cancelled_lookup_that_has_no_thread_yet_runs_nothing() -> None:
    """With a deadline too."""
    world = World(answering("Image"))

    async def give_up() -> None:
        patient = [asyncio.ensure_future(world.providers.lookup_async(name)) for name in images(70)]
        await asyncio.to_thread(wait_until, lambda: world.runs, "a run")
        task = asyncio.ensure_future(world.providers.lookup_async("reg.io/given-up", timeout_seconds=600))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.gate.set()
        await asyncio.gather(*patient)
        # Threads take lookups in their order: this one has its turn after the one that was given up.
        await world.providers.lookup_async("reg.io/last")

    asyncio.run(give_up())
    assert "reg.io/given-up" not in world.runs


# Forks

has_forks = pytest.mark.skipif(sys.platform == "win32", reason="needs forks")


@pytest.fixture
def forking() -> World:
    """A world with an answer kept for one registry, and a thread pool in use."""
    world = World()
    world.gate.set()
    assert outcome(asyncio.run(world.providers.lookup_async("warm.io/app"))) is RAN
    return world


def exit_code_of_child(world: World) -> int:
    """Look up what is kept and what is not in a forked child, directly and awaited."""

    def look_up_everywhere() -> None:
        world.gate = threading.Event()
        world.gate.set()
        assert outcome(world.providers.lookup("warm.io/app")) is CACHED
        assert outcome(world.providers.lookup("cold.io/app")) is RAN
        assert outcome(asyncio.run(world.providers.lookup_async("other.io/app"))) is RAN

    return exit_code_in_fork(look_up_everywhere)


@has_forks
def test_a_forked_child_goes_on_with_what_is_kept(forking: World) -> None:
    assert exit_code_of_child(forking) == 0
    assert outcome(forking.providers.lookup("cold.io/app")) is RAN


@has_forks
def test_a_forked_child_does_not_wait_for_runs_of_its_parent(forking: World) -> None:
    """A run that a thread of the parent waits for never ends in the child; the child runs its own."""
    forking.gate.clear()
    with forking.asking("cold.io/app") as [held]:
        wait_until(lambda: len(forking.runs) == 2, "the parent's run")
        assert exit_code_of_child(forking) == 0
    assert outcome(held.result()) is RAN


@has_forks
def test_a_forked_child_is_not_stuck_on_locks_of_its_parent(forking: World) -> None:
    """A lock that a thread of the parent held at the fork is nobody's in the child."""
    provider, providers = forking.provider, forking.providers
    with provider._lock, provider.counters._lock, providers._executor_lock:
        assert exit_code_of_child(forking) == 0
