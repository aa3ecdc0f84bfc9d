"""One run at a time, shared by all who wait, good or bad; and nobody shares with somebody else's config."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import API_VERSION, ClusterInfo
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.clusters.auth.authenticator import Authenticator, living_authenticators, shared_authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import make_session
from keyferry.errors import ClusterAuthError, PluginExitError, UnusableCertificateError
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy
from support.plugins import SteppedClock, exit_code_in_fork, wait_until

SECOND = 1_000_000_000
THREADS = 100


class Runs:
    """A plugin in this process: gives its answers in turn, the last one for ever."""

    def __init__(self, *answers: ClusterCredential | Exception, gate: threading.Event | None = None) -> None:
        self.answers = list(answers)
        self.gate = gate
        self.count = 0
        self.begun = threading.Event()

    def __call__(self) -> ClusterCredential:
        """Run."""
        self.count += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.begun.set()
        if self.gate is not None:
            assert self.gate.wait(20)
        if isinstance(answer, Exception):
            raise answer
        return answer


def failure() -> PluginExitError:
    return PluginExitError("plugin", 1, "exec: executable plugin failed with exit code 1")


def together(work: Callable[[], object], gate: threading.Event, begun: threading.Event) -> list[object]:
    """What *work* gives in many threads, all of which are under way before the gate is opened."""

    def attempt(_: int) -> object:
        try:
            return work()
        except ClusterAuthError as error:
            return str(error)

    with ThreadPoolExecutor(THREADS) as pool:
        results = [pool.submit(attempt, number) for number in range(THREADS)]
        assert begun.wait(20)
        wait_until(lambda: all(result.running() for result in results), "all threads")
        gate.set()
        return [result.result() for result in results]


def test_a_hundred_threads_share_one_run() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential("t"), gate=gate)
    authenticator = Authenticator(runs)
    results = together(authenticator.credential, gate, runs.begun)
    assert runs.count == 1
    assert len({id(result) for result in results}) == 1
    assert authenticator.credential() is results[0]


def test_a_hundred_threads_share_one_failure() -> None:
    """Nobody who waited runs the plugin again for the same request."""
    gate = threading.Event()
    runs = Runs(failure(), gate=gate)
    results = together(Authenticator(runs, backs_off=True).credential, gate, runs.begun)
    # A thread may come only after the run has landed; from the second failure on it is told the last one.
    assert runs.count <= 2
    assert set(results) == {"no credential: plugin 'plugin': exited with status 1"}


def test_a_hundred_refusals_of_one_credential_renew_it_once() -> None:
    gate = threading.Event()
    gate.set()
    runs = Runs(ClusterCredential("old"), ClusterCredential("new"), gate=gate)
    authenticator = Authenticator(runs)
    refused = authenticator.credential()
    gate.clear()
    runs.begun.clear()
    results = together(lambda: authenticator.renew(refused), gate, runs.begun)
    assert runs.count == 2
    assert {result.token for result in results if isinstance(result, ClusterCredential)} == {"new"}


def test_a_good_credential_is_given_while_another_run_is_under_way() -> None:
    """A renewal after a 401 does not hold up requests that have a credential."""
    gate = threading.Event()
    gate.set()
    runs = Runs(ClusterCredential("old"), ClusterCredential("new"), gate=gate)
    authenticator = Authenticator(runs)
    refused = authenticator.credential()
    gate.clear()
    runs.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(authenticator.renew, refused)
        assert runs.begun.wait(20)
        assert authenticator.credential() is refused
        gate.set()
        assert renewal.result().token == "new"


def test_the_clock_decides_and_the_expiry_is_inclusive() -> None:
    clock = SteppedClock(1000 * SECOND)
    runs = Runs(ClusterCredential("a", expires_ns=1010 * SECOND), ClusterCredential("b"))
    authenticator = Authenticator(runs, clock=clock)
    assert authenticator.ready() is None
    assert authenticator.credential().token == "a"
    clock.step(10)
    assert authenticator.ready() is not None
    assert (authenticator.credential().token, runs.count) == ("a", 1)
    clock.now_ns += 1
    assert authenticator.ready() is None
    assert (authenticator.credential().token, runs.count) == ("b", 2)
    assert authenticator.expires_ns is None


def test_failures_in_a_row_are_backed_off_and_success_ends_that() -> None:
    monotonic = SteppedClock(0)
    runs = Runs(failure(), failure(), failure(), ClusterCredential("t"))
    authenticator = Authenticator(runs, server="https://k", monotonic=monotonic)

    def attempt() -> int:
        with pytest.raises(ClusterAuthError) as caught:
            authenticator.credential()
        assert (
            caught.value.kubernetes_text
            == "getting credentials: exec: executable plugin failed with exit code 1"
        )
        assert isinstance(caught.value.underlying, PluginExitError)
        assert str(caught.value).startswith("cluster 'https://k': no credential: plugin 'plugin'")
        return runs.count

    assert [attempt(), attempt(), attempt(), attempt()] == [1, 2, 2, 2]
    monotonic.now_ns = SECOND // 2 - 1
    assert attempt() == 2
    monotonic.now_ns += 1
    assert attempt() == 3
    monotonic.now_ns += SECOND
    assert authenticator.credential().token == "t"


def test_without_back_off_each_request_runs_the_plugin_as_in_client_go() -> None:
    runs = Runs(failure())
    authenticator = Authenticator(runs, backs_off=False, monotonic=SteppedClock(0))
    for _ in range(5):
        with pytest.raises(ClusterAuthError):
            authenticator.credential()
    assert runs.count == 5


def test_a_run_that_is_cut_short_is_taken_up_by_the_next() -> None:
    """Ctrl-C in one thread is not the failure of the others."""

    class Interrupted(BaseException):
        pass

    gate = threading.Event()
    credential = ClusterCredential("t")
    calls: list[int] = []
    begun = threading.Event()

    def run() -> ClusterCredential:
        calls.append(1)
        begun.set()
        assert gate.wait(20)
        if len(calls) == 1:
            raise Interrupted
        return credential

    authenticator = Authenticator(run)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(authenticator.credential)
        assert begun.wait(20)
        second = pool.submit(authenticator.credential)
        wait_until(second.running)
        gate.set()
        assert second.result() is credential
        with pytest.raises(Interrupted):
            first.result()


def test_an_unusable_certificate_is_reported_once_and_the_old_credential_lives_on() -> None:
    clock = SteppedClock(1000 * SECOND)
    bad = UnusableCertificateError("plugin", "its answer: no", "failed parsing", 2000 * SECOND)
    runs = Runs(ClusterCredential("a", expires_ns=1000 * SECOND), bad)
    authenticator = Authenticator(runs, clock=clock)
    authenticator.credential()
    clock.step(1)
    with pytest.raises(ClusterAuthError):
        authenticator.credential()
    assert (authenticator.credential().token, authenticator.expires_ns) == ("a", 2000 * SECOND)


def test_a_failure_holds_no_frame_of_the_run() -> None:
    """The frames of a run hold what the plugin printed."""
    authenticator = Authenticator(Runs(failure()))
    with pytest.raises(ClusterAuthError) as caught:
        authenticator.credential()
    assert caught.value.underlying is not None
    assert caught.value.underlying.__traceback__ is None
    assert caught.value.__context__ is None


def test_changed_certificates_are_counted() -> None:
    """The first one changes nothing; another one does, and so does having none any more."""
    seen: list[tuple[str, int]] = []
    runs = Runs(ClusterCredential("a", "A", "k"), ClusterCredential("b", "B", "k"), ClusterCredential("c"))
    authenticator = Authenticator(runs)
    credential = authenticator.credential()
    seen.append((credential.token, authenticator.certificates))
    for _ in range(2):
        credential = authenticator.renew(credential)
        seen.append((credential.token, authenticator.certificates))
    assert seen == [("a", 0), ("b", 1), ("c", 2)]


def test_asyncio_waits_without_blocking_the_loop() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential("t"), gate=gate)
    authenticator = Authenticator(runs)

    async def main() -> None:
        tasks = [asyncio.create_task(authenticator.credential_async()) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.to_thread(runs.begun.wait, 20)
        gate.set()
        results = await asyncio.gather(*tasks)
        assert {result.token for result in results} == {"t"}
        renewed = await authenticator.renew_async(results[0])
        assert renewed.token == "t"

    asyncio.run(main())
    assert runs.count == 2


def test_a_task_that_gives_up_takes_the_run_from_no_other() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential("t"), gate=gate)
    authenticator = Authenticator(runs)

    async def main() -> list[object]:
        tasks = [asyncio.create_task(authenticator.credential_async()) for _ in range(5)]
        await asyncio.to_thread(runs.begun.wait, 20)
        tasks[0].cancel()
        tasks[3].cancel()
        await asyncio.wait([tasks[0], tasks[3]])
        gate.set()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    results = asyncio.run(main())
    assert [isinstance(result, ClusterCredential) for result in results] == [False, True, True, False, True]
    assert runs.count == 1


class Counting(ThreadPoolExecutor):
    """An executor that counts what it is given to do."""

    submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """Count, and do it."""
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("is_renewal", [False, True], ids=["first", "renewal"])
def test_a_burst_larger_than_the_loops_executor_leaves_threads_for_others(*, is_renewal: bool) -> None:
    """However many tasks wait for a run, one thread does."""
    gate = threading.Event()
    gate.set()
    runs = Runs(ClusterCredential("t"), gate=gate)
    authenticator = Authenticator(runs)
    refused = authenticator.credential() if is_renewal else None
    gate.clear()

    async def ask() -> ClusterCredential:
        if refused is None:
            return await authenticator.credential_async()
        return await authenticator.renew_async(refused)

    async def main() -> int:
        executor = Counting(2)
        asyncio.get_running_loop().set_default_executor(executor)
        tasks = [asyncio.create_task(ask()) for _ in range(THREADS)]
        await asyncio.sleep(0)
        submitted = executor.submitted
        gate.set()
        assert {credential.token for credential in await asyncio.gather(*tasks)} == {"t"}
        return submitted

    assert asyncio.run(main()) == 1
    assert runs.count == (2 if is_renewal else 1)


def test_a_fork_during_a_run_leaves_the_child_free_to_run_its_own() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential("t"), gate=gate)
    authenticator = Authenticator(runs)
    with ThreadPoolExecutor(1) as pool:
        parent = pool.submit(authenticator.credential)
        assert runs.begun.wait(20)

        def child() -> None:
            gate.set()
            assert authenticator.credential().token == "t"
            assert runs.count == 2
            assert authenticator in living_authenticators()

        assert exit_code_in_fork(child) == 0
        gate.set()
        assert parent.result().token == "t"
    assert runs.count == 1


def test_a_fork_while_locks_are_held_does_not_hang_the_child() -> None:
    """Whatever a thread of the parent held, the child has locks of its own."""
    authenticator = Authenticator(Runs(ClusterCredential("t")))
    held = threading.Event()
    done = threading.Event()

    def make() -> Authenticator:
        held.set()
        assert done.wait(20)
        return Authenticator(Runs(ClusterCredential("u")))

    def child() -> None:
        assert authenticator.credential().token == "t"
        assert shared_authenticator("another", lambda: authenticator) is authenticator

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(shared_authenticator, "held", make)
        assert held.wait(20)
        with authenticator._lock:
            code = exit_code_in_fork(child)
        done.set()
        making.result()
    assert code == 0


# Sharing

PLUGIN = ExecConfig("/bin/plugin", api_version=API_VERSION, interactive_mode="Never")
CLIENT = ClientConfig(
    "https://one", exec=PLUGIN, exec_cluster=ClusterInfo(server="https://one"), user_name="admin"
)


def client(plugin: ExecConfig = PLUGIN, server: str = "https://one", **cluster: object) -> ClientConfig:
    info = ClusterInfo(server=server, **cluster)  # type: ignore[arg-type] # one field by name
    return replace(CLIENT, server=server, exec=plugin, exec_cluster=info)


def listing(command: str) -> PluginPolicy:
    return PluginPolicy("Allowlist", (AllowlistEntry(command),))


def test_the_same_config_shares_one_authenticator_whoever_asks() -> None:
    one = make_session(CLIENT)
    other = make_session(replace(client(), user_name="someone", context="else"), retries=False)
    assert one.authenticator is not None
    assert one.authenticator is other.authenticator


OTHERS = {
    "command": client(replace(PLUGIN, command="/bin/other")),
    "args": client(replace(PLUGIN, args=("a",))),
    "no args and none given": client(replace(PLUGIN, args=())),
    "env": client(replace(PLUGIN, env=(ExecEnvVar("A", "b"),))),
    "version": client(replace(PLUGIN, api_version="client.authentication.k8s.io/v1beta1")),
    "mode": client(replace(PLUGIN, interactive_mode="IfAvailable")),
    "hint": client(replace(PLUGIN, install_hint="x")),
    "cluster info": client(replace(PLUGIN, provide_cluster_info=True)),
    "server": client(server="https://two"),
    "authority": client(certificate_authority_data=b"x"),
    "insecure": client(insecure_skip_tls_verify=True),
    "name": client(tls_server_name="x"),
    "proxy": client(proxy_url="http://p"),
    "config": client(config="{}"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_two_users_called_admin_share_nothing_unless_everything_is_the_same(other: ClientConfig) -> None:
    assert other.user_name == "admin"
    one, two = make_session(CLIENT), make_session(other)
    assert one.authenticator is not None
    assert two.authenticator is not None
    assert one.authenticator is not two.authenticator


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": PluginPolicy("AllowAll")},
        {"policy": listing("/bin/plugin")},
        {"stdin_unavailable": True},
        {"timeout_seconds": 5.0},
        {"backs_off": False},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_may_run_and_how_is_part_of_what_is_shared(settings: dict[str, object]) -> None:
    """A session with a strict policy never gets what one without a policy has run."""
    one = make_session(CLIENT)
    assert one.authenticator is not make_session(CLIENT, **settings).authenticator  # type: ignore[arg-type] # one name


def test_an_authenticator_ends_with_its_last_session() -> None:
    """In contrast to client-go: credentials of a cluster that is no longer used are not kept."""
    plugin = client(replace(PLUGIN, args=("only here",)))
    session = make_session(plugin)
    number = id(session.authenticator)
    assert any(id(each) == number for each in living_authenticators())
    del session
    gc.collect()
    assert all(id(each) != number for each in living_authenticators())


def test_sharing_is_safe_in_many_threads() -> None:
    made: list[Authenticator] = []

    def make() -> Authenticator:
        made.append(Authenticator(Runs(ClusterCredential("t"))))
        return made[-1]

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: shared_authenticator("one key", make), range(500)))
    assert len(made) == 1
    assert {id(each) for each in found} == {id(made[0])}
