"""Many askers at once: threads, tasks and forks, against real plugins that count their runs."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from keyferry.errors import PluginExitError, PluginTimeoutError
from keyferry.images.answer import Answer, ProvisionOutcome
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from support.plugins import IMAGE, REGISTRY, Node, SteppedClock, exit_code_in_fork, wait_until
from support.scripted import cache_entries

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and runs shell scripts")

WAIT_FOR_GATE = 'while [ ! -e "$HERE/gate" ]; do sleep 0.01; done'
ANY_REGISTRY = "*.example"


def images(count: int, registry: str = REGISTRY) -> list[str]:
    """Names of different images of one registry."""
    return [f"{registry}/team/app{number}" for number in range(count)]


def ask_at_once(providers: Providers, names: Iterable[str]) -> list[Answer]:
    """Look up every name in a thread of its own, all let loose together."""
    wanted = list(names)
    start = threading.Event()
    answers: list[Answer | BaseException] = []

    def ask(name: str) -> None:
        start.wait()
        try:
            answers.append(providers.lookup(name))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            answers.append(error)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in wanted]
    try:
        for thread in threads:
            thread.start()
    finally:
        start.set()
    for thread in threads:
        thread.join()
    found = [answer for answer in answers if isinstance(answer, Answer)]
    assert len(found) == len(wanted), [answer for answer in answers if not isinstance(answer, Answer)]
    return found


def users(answers: Iterable[Answer]) -> Counter[tuple[str, ...]]:
    """Which user names were found, and how often."""
    return Counter(tuple(credential.username for credential in answer.credentials) for answer in answers)


@contextmanager
def asking(providers: Providers, *names: str) -> Iterator[list[Future[Answer]]]:
    """Ask in the background, one after the other; the test sees to it that the answers come."""
    with ThreadPoolExecutor(len(names)) as pool:
        yield [pool.submit(providers.lookup, name) for name in names]


class CountingClock(SteppedClock):
    """A stepped clock that knows how often it was read, and so how far a lookup has come.

    A provider reads it while it holds the lock under which it then looks for a
    run to wait for; so who has read it cannot miss a run that goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def __call__(self) -> int:
        """The time, and one reading more."""
        self.readings += 1
        return super().__call__()


# One run for many


def test_a_thousand_threads_share_one_run(node: Node) -> None:
    """A thousand images of one registry cost one run when its answer is for the registry."""
    node.recording("Registry", before="sleep 0.2")
    answers = ask_at_once(node.load(), images(1000))
    assert len(node.runs()) == 1
    assert users(answers) == {("user",): 1000}


def test_a_thousand_tasks_share_one_run(node: Node) -> None:
    """A thousand awaited lookups of one registry cost one run."""
    node.recording("Registry", before="sleep 0.3")
    providers = node.load()

    async def ask() -> list[Answer]:
        return await asyncio.gather(*map(providers.lookup_async, images(1000)))

    answers = asyncio.run(ask())
    assert len(node.runs()) == 1
    assert users(answers) == {("user",): 1000}


def test_what_others_waited_for_is_counted_as_shared(node: Node) -> None:
    """One asker ran the plugin; the others shared that run."""
    node.recording("Registry", before=WAIT_FOR_GATE)
    clock = CountingClock()
    providers = node.load(clock=clock)
    before = clock.readings
    with asking(providers, *images(10)) as futures:
        wait_until(lambda: clock.readings - before == 10, "all ten to wait")
        node.file("gate").touch()
        answers = [future.result() for future in futures]
    how = Counter(answer.provisions[0].outcome for answer in answers)
    assert how == {ProvisionOutcome.RAN: 1, ProvisionOutcome.SHARED: 9}
    counts = providers.providers[0].counters.read()
    assert (counts.runs, counts.shared) == (1, 9)


def test_each_image_runs_once_when_answers_are_for_images(node: Node) -> None:
    """Askers for one image share its run; different images have runs of their own."""
    node.recording("Image", before="sleep 0.05")
    answers = ask_at_once(node.load(), images(40) * 5)
    assert sorted(node.runs()) == sorted(images(40))
    assert users(answers) == {("user",): 200}


def test_one_image_is_asked_for_once_though_nothing_is_kept(node: Node) -> None:
    """Sharing does not depend on the cache: an answer that is not kept still serves who waits."""
    node.recording("Image", duration="0s", before=WAIT_FOR_GATE)
    clock = CountingClock()
    providers = node.load(clock=clock)
    before = clock.readings
    with asking(providers, *[IMAGE] * 10) as futures:
        wait_until(lambda: clock.readings - before == 10, "all ten to wait")
        node.file("gate").touch()
        answers = [future.result() for future in futures]
    assert node.runs() == [IMAGE]
    assert users(answers) == {("user",): 10}


def test_a_global_answer_serves_every_registry(node: Node) -> None:
    """An answer for everything is asked for once, whatever registries are asked for."""
    node.recording("Global", auth={ANY_REGISTRY: ("user", "pass")}, before="sleep 0.1")
    node.provider(matchImages=[ANY_REGISTRY])
    clock = SteppedClock()
    providers = node.load(clock=clock)
    names = [name for number in range(20) for name in images(10, f"r{number}.example")]
    assert users([providers.lookup(names[0])]) == {("user",): 1}
    assert users(ask_at_once(providers, names)) == {("user",): 200}
    assert len(node.runs()) == 1
    # Nothing is kept any more, but that answers are for everything is remembered.
    clock.step(601)
    assert users(ask_at_once(providers, names)) == {("user",): 200}
    assert len(node.runs()) == 2


# Who waits for whom


def test_images_do_not_wait_for_each_other_once_answers_are_for_images(node: Node) -> None:
    """After an answer for one image, the runs for two others overlap: each waits for the other to start."""
    meet = (
        f'[ "$image" = {IMAGE} ] || while [ "$(grep -c "" "$HERE/plugin.runs")" -lt 3 ]; do sleep 0.01; done'
    )
    node.recording("Image", before=meet)
    providers = node.load(timeout_seconds=60)
    providers.lookup(IMAGE).raise_for_failures()
    assert users(ask_at_once(providers, images(2))) == {("user",): 2}
    assert sorted(node.runs()) == sorted([IMAGE, *images(2)])


def test_others_wait_while_it_is_unknown_what_an_answer_is_for(node: Node) -> None:
    """Before the first answer the images of a registry wait for it, then ask for themselves if they must."""
    node.recording("Image", before=f'[ "$RUN" != 1 ] || {WAIT_FOR_GATE}')
    clock = CountingClock()
    providers = node.load(clock=clock)
    first, *others = images(5)
    with asking(providers, first) as leader:
        wait_until(node.runs, "the first run")
        before = clock.readings
        with asking(providers, *others) as followers:
            wait_until(lambda: clock.readings - before == 4, "the others to wait")
            assert node.runs() == [first]
            node.file("gate").touch()
            answers = [future.result() for future in (*leader, *followers)]
    assert users(answers) == {("user",): 5}
    assert sorted(node.runs()) == images(5)


def test_registries_do_not_wait_for_each_other(node: Node) -> None:
    """An image of another registry is asked for while a run goes on, even before the first answer."""
    both = 'while [ "$(grep -c "" "$HERE/plugin.runs")" -lt 2 ]; do sleep 0.01; done'
    node.recording("Registry", auth={ANY_REGISTRY: ("user", "pass")}, before=both)
    node.provider(matchImages=[ANY_REGISTRY])
    providers = node.load(timeout_seconds=60)
    assert users(ask_at_once(providers, ["a.example/x", "b.example/x"])) == {("user",): 2}
    assert sorted(node.runs()) == ["a.example/x", "b.example/x"]


def test_without_coalescing_every_image_has_its_run(node: Node) -> None:
    """As in the kubelet, images of one registry then run beside each other and share nothing under way."""
    all_here = 'while [ "$(grep -c "" "$HERE/plugin.runs")" -lt 8 ]; do sleep 0.01; done'
    node.recording("Registry", before=all_here)
    providers = node.load(timeout_seconds=60, coalesce=False)
    assert users(ask_at_once(providers, images(8))) == {("user",): 8}
    assert sorted(node.runs()) == images(8)


def test_without_coalescing_one_image_still_has_one_run(node: Node) -> None:
    """As in the kubelet, askers for the same image share a run."""
    node.recording("Registry", before="sleep 0.3")
    assert users(ask_at_once(node.load(coalesce=False), [IMAGE] * 50)) == {("user",): 50}
    assert node.runs() == [IMAGE]


# Failures


def test_others_ask_for_themselves_when_the_first_fails(node: Node) -> None:
    """A run that fails for one image fails no other image."""
    fail_first = f'if [ "$image" = {images(1)[0]} ]; then {WAIT_FOR_GATE}; exit 1; fi'
    node.recording("Registry", before=fail_first)
    clock = CountingClock()
    providers = node.load(clock=clock)
    first, *others = images(6)
    with asking(providers, first) as (leader,):
        wait_until(node.runs, "the first run")
        before = clock.readings
        with asking(providers, *others) as followers:
            wait_until(lambda: clock.readings - before == 5, "the others to wait")
            node.file("gate").touch()
            answers = [future.result() for future in followers]
        failures = leader.result().failures
    assert users(answers) == {("user",): 5}
    assert [type(failure.error) for failure in failures] == [PluginExitError]


def test_askers_for_the_same_image_share_its_failure(node: Node) -> None:
    """As in the kubelet, who waits for a run of the same image gets its failure and starts no second one."""
    node.recording("Registry", before=f"{WAIT_FOR_GATE}; exit 1")
    clock = CountingClock()
    providers = node.load(clock=clock)
    before = clock.readings
    with asking(providers, *[IMAGE] * 5) as futures:
        wait_until(lambda: clock.readings - before == 5, "all to wait")
        node.file("gate").touch()
        answers = [future.result() for future in futures]
    assert [len(answer.failures) for answer in answers] == [1] * 5
    assert node.runs() == [IMAGE]


def test_a_failure_is_never_kept(node: Node) -> None:
    """Every lookup after a failure asks anew, until an answer comes."""
    node.recording("Registry", before='[ "$RUN" -gt 2 ] || exit 1')
    providers = node.load()
    assert [len(providers.lookup(IMAGE).failures) for _ in range(4)] == [1, 1, 0, 0]
    assert len(node.runs()) == 3


def test_a_failure_does_not_displace_an_answer(node: Node) -> None:
    """A run that fails for one image leaves the kept answer of another alone."""
    node.recording("Image", before=f'[ "$image" = {IMAGE} ] || exit 1')
    providers = node.load()
    providers.lookup(IMAGE).raise_for_failures()
    assert len(providers.lookup(images(1)[0]).failures) == 1
    providers.lookup(IMAGE).raise_for_failures()
    assert node.runs() == [IMAGE, *images(1)]


# Time


def test_an_answer_is_good_up_to_its_last_instant(node: Node) -> None:
    """At the instant of its expiry an answer still serves everyone; after it, one run serves everyone."""
    node.recording("Registry", duration="10s", before="sleep 0.2")
    clock = SteppedClock()
    providers = node.load(clock=clock)
    providers.lookup(IMAGE)
    clock.step(10)
    assert users(ask_at_once(providers, images(100))) == {("user",): 100}
    assert len(node.runs()) == 1
    clock.now_ns += 1
    assert users(ask_at_once(providers, images(100))) == {("user",): 100}
    assert len(node.runs()) == 2


def test_a_clock_that_jumps_back_loses_nothing(node: Node) -> None:
    """An answer from the future of a clock that was set back is still an answer."""
    node.recording("Registry", duration="10s")
    clock = SteppedClock()
    providers = node.load(clock=clock)
    providers.lookup(IMAGE)
    clock.step(-0.5)
    assert users(ask_at_once(providers, images(20))) == {("user",): 20}
    assert len(node.runs()) == 1


def test_no_answer_outlives_its_expiry_in_a_race(node: Node) -> None:
    """While answers expire under many askers, none is given from memory after its end."""
    node.recording("Registry", duration="30ms")
    providers = node.load()
    late: list[int] = []

    def ask_on_and_on(name: str) -> None:
        while len(node.runs()) < 12:
            asked = time.monotonic_ns()
            (provision,) = providers.lookup(name).provisions
            assert provision.outcome is not ProvisionOutcome.FAILED
            if provision.outcome is ProvisionOutcome.CACHED and (provision.expires_ns or 0) < asked:
                late.append(asked)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask_on_and_on, images(8)))
    assert late == []


# Eviction


def evictable(node: Node, clock: SteppedClock) -> tuple[Providers, Credential]:
    """Providers that have a credential, and the credential."""
    node.recording("Registry", before="sleep 0.1")
    providers = node.load(clock=clock)
    (credential,) = providers.lookup(IMAGE).credentials
    assert providers.lookup(IMAGE).provisions[0].outcome is ProvisionOutcome.CACHED
    return providers, credential


def test_after_an_eviction_there_is_one_fresh_run(node: Node) -> None:
    """A refused credential is forgotten, and everyone who asks then shares one new run."""
    providers, credential = evictable(node, SteppedClock())
    assert providers.evict(IMAGE, credential)
    assert users(ask_at_once(providers, images(100))) == {("user",): 100}
    assert len(node.runs()) == 2


def test_many_who_evict_the_same_credential_make_one_fresh_run(node: Node) -> None:
    """When every puller of a node is refused at once, the plugin runs once more and not a hundred times."""
    providers, credential = evictable(node, SteppedClock())
    with ThreadPoolExecutor(50) as pool:
        evicted = list(pool.map(lambda _: providers.evict(IMAGE, credential), range(50)))
        list(pool.map(providers.lookup, images(50)))
    assert evicted.count(True) == 1
    assert len(node.runs()) == 2


def test_a_registry_that_refuses_everything_makes_no_loop(node: Node) -> None:
    """Half a minute passes between evictions of one answer, however often a registry refuses it."""
    clock = SteppedClock()
    providers, credential = evictable(node, clock)
    assert providers.evict(IMAGE, credential)
    for _ in range(5):
        providers.lookup(IMAGE)
        assert not providers.evict(IMAGE, credential)
    assert len(node.runs()) == 2
    clock.step(29.9)
    assert not providers.evict(IMAGE, credential)
    clock.step(0.1)
    assert providers.evict(IMAGE, credential)
    providers.lookup(IMAGE)
    assert len(node.runs()) == 3


def test_a_credential_of_another_password_is_not_evicted(node: Node) -> None:
    """A refusal that comes late, for an older credential, does not cost the new one."""
    providers, credential = evictable(node, SteppedClock())
    older = Credential(
        username=credential.username, password="older", source=credential.source, key=credential.key
    )
    assert not providers.evict(IMAGE, older)
    assert providers.lookup(IMAGE).provisions[0].outcome is ProvisionOutcome.CACHED
    assert len(node.runs()) == 1


def test_a_lookup_that_overlaps_an_eviction_does_not_undo_it(node: Node) -> None:
    """An answer that was put together before an eviction is not kept after it."""
    for name in ("first", "second"):
        node.recording("Registry", name=name, auth={REGISTRY: (name, "pass")})
        node.provider(name)
    evictions: list[bool] = []

    class EvictingClock(SteppedClock):
        """Evicts the first provider's credential while the second provider is asked."""

        due = 0

        def __call__(self) -> int:
            self.due -= 1
            if self.due == 0:
                evictions.append(providers.evict(IMAGE, credential))
            return self.now_ns

    clock = EvictingClock()
    providers = node.load(clock=clock)
    credential, _ = providers.lookup(IMAGE).credentials
    clock.due = 2
    providers.lookup(IMAGE)
    assert evictions == [True]
    providers.lookup(IMAGE)
    assert len(node.runs("first")) == 2


# Cancelling


def test_a_cancelled_lookup_leaves_its_answer_to_the_next(node: Node) -> None:
    """Who gives up waiting does not stop the plugin; what it answers is kept."""
    node.recording("Registry", before=WAIT_FOR_GATE)
    providers = node.load()

    async def give_up() -> None:
        task = asyncio.ensure_future(providers.lookup_async(IMAGE))
        await asyncio.to_thread(wait_until, node.runs, "the run")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        node.file("gate").touch()
        await asyncio.to_thread(wait_until, lambda: cache_entries(providers.providers[0]), "the answer")

    asyncio.run(give_up())
    answer = providers.lookup(IMAGE)
    assert answer.provisions[0].outcome is ProvisionOutcome.CACHED
    assert users([answer]) == {("user",): 1}
    assert len(node.runs()) == 1


def test_a_waiting_lookup_does_not_block_the_loop(node: Node) -> None:
    """While a plugin runs, other tasks of the loop go on: here one of them lets the plugin end."""
    node.recording("Registry", before=WAIT_FOR_GATE)
    providers = node.load()

    async def open_gate() -> None:
        await asyncio.to_thread(wait_until, node.runs, "the run")
        node.file("gate").touch()

    async def ask() -> Answer:
        answer, _ = await asyncio.gather(providers.lookup_async(IMAGE), open_gate())
        return answer

    assert users([asyncio.run(ask())]) == {("user",): 1}


# Deadlines


def test_a_short_deadline_holds_behind_a_long_run(node: Node) -> None:
    """Many who have little time get their failure while the run they wait for goes on, threads and tasks alike."""
    node.recording("Registry", before=WAIT_FOR_GATE)
    providers = node.load()

    async def ask_many() -> list[Answer]:
        # More than there are threads to wait in.
        return await asyncio.gather(
            *(providers.lookup_async(name, timeout_seconds=0.3) for name in images(200))
        )

    with asking(providers, IMAGE) as [first]:
        wait_until(node.runs, "the run")
        late = [providers.lookup(IMAGE, timeout_seconds=0.1), *asyncio.run(ask_many())]
        assert not first.done()
        node.file("gate").touch()
        assert users([first.result()]) == {("user",): 1}
    for answer in late:
        (failure,) = answer.failures
        assert isinstance(failure.error, PluginTimeoutError)
        assert not failure.error.was_killed
    assert len(node.runs()) == 1
    assert providers.lookup(IMAGE, timeout_seconds=0.1).provisions[0].outcome is ProvisionOutcome.CACHED


def test_a_short_deadline_holds_where_no_thread_is_free(node: Node) -> None:
    """Tasks with much time take every thread; one with little does not wait for them, nor for a thread."""
    node.recording("Image", before=WAIT_FOR_GATE)
    providers = node.load()

    async def ask() -> Answer:
        # More than there are threads.
        patient = [asyncio.ensure_future(providers.lookup_async(name)) for name in images(70)]
        await asyncio.to_thread(wait_until, node.runs, "a run")
        try:
            late = await providers.lookup_async(IMAGE, timeout_seconds=0.2)
            assert not any(task.done() for task in patient)
        finally:
            node.file("gate").touch()
        assert users(await asyncio.gather(*patient)) == {("user",): 70}
        return late

    (failure,) = asyncio.run(ask()).failures
    assert isinstance(failure.error, PluginTimeoutError)
    assert not failure.error.was_killed
    assert IMAGE not in node.runs()


def test_a_cancelled_lookup_that_has_no_thread_yet_runs_nothing(node: Node) -> None:
    """Who gives up before there was a thread has nothing run for them, with a deadline too."""
    node.recording("Image", before=WAIT_FOR_GATE)
    providers = node.load()

    async def give_up() -> None:
        patient = [asyncio.ensure_future(providers.lookup_async(name)) for name in images(70)]
        await asyncio.to_thread(wait_until, node.runs, "a run")
        task = asyncio.ensure_future(providers.lookup_async(IMAGE, timeout_seconds=600))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        node.file("gate").touch()
        await asyncio.gather(*patient)
        # Threads take lookups in their order: this one has its turn after the one that was given up.
        await providers.lookup_async(f"{REGISTRY}/last")

    asyncio.run(give_up())
    assert IMAGE not in node.runs()


# Forks


def forking(node: Node, before: str = "") -> Providers:
    """Providers of any registry with an answer kept for one, and a thread pool in use."""
    node.recording("Registry", auth={ANY_REGISTRY: ("user", "pass")}, before=before)
    node.provider(matchImages=[ANY_REGISTRY])
    providers = node.load()
    asyncio.run(providers.lookup_async("warm.example/app"))
    providers.lookup("warm.example/app").raise_for_failures()
    return providers


def look_up_everywhere(providers: Providers) -> None:
    """Look up what is kept and what is not, directly and awaited."""
    for name, how in (
        ("warm.example/app", ProvisionOutcome.CACHED),
        ("cold.example/app", ProvisionOutcome.RAN),
    ):
        answer = providers.lookup(name)
        answer.raise_for_failures()
        assert answer.provisions[0].outcome is how, (name, answer.provisions[0].outcome)
        assert users([answer]) == {("user",): 1}
    answer = asyncio.run(providers.lookup_async("other.example/app"))
    answer.raise_for_failures()
    assert users([answer]) == {("user",): 1}


def test_a_forked_child_goes_on_with_what_is_kept(node: Node) -> None:
    """A child that is forked after the cache was filled uses it, and asks for what is missing."""
    providers = forking(node)
    assert exit_code_in_fork(lambda: look_up_everywhere(providers)) == 0
    assert node.runs() == ["warm.example/app", "cold.example/app", "other.example/app"]
    assert providers.lookup("cold.example/app").provisions[0].outcome is ProvisionOutcome.RAN


def test_a_forked_child_does_not_wait_for_runs_of_its_parent(node: Node) -> None:
    """A run that a thread of the parent waits for never ends in the child; the child runs its own."""
    providers = forking(node, before=f'[ "$RUN" != 2 ] || {WAIT_FOR_GATE}')
    with asking(providers, "cold.example/app") as (held,):
        wait_until(lambda: len(node.runs()) == 2, "the parent's run")
        code = exit_code_in_fork(lambda: look_up_everywhere(providers))
        node.file("gate").touch()
        held.result().raise_for_failures()
    assert code == 0
    assert node.runs().count("cold.example/app") == 2


def test_a_forked_child_is_not_stuck_on_locks_of_its_parent(node: Node) -> None:
    """A lock that a thread of the parent held at the fork is nobody's in the child."""
    providers = forking(node)
    (provider,) = providers.providers
    with provider._lock, provider.counters._lock, providers._executor_lock:
        code = exit_code_in_fork(lambda: look_up_everywhere(providers))
    assert code == 0
