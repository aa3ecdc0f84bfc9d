"""One run at a time, shared by all who wait, good or bad; and nobody shares with somebody else's config."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keyferry import AllowlistEntry, PluginPolicy
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import API_VERSION, ClusterInfo
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.clusters.auth.authenticator import Authenticator, shared_authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import PluginSettings, make_session
from keyferry.errors import ClusterAuthError, PluginExitError, UnusableCertificateError
from keyferry.invoke.run import Tail
from support.plugins import PATIENCE_SECONDS, SteppedClock, exit_code_in_fork, wait_until

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
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
            assert self.gate.wait(PATIENCE_SECONDS)
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
        assert begun.wait(PATIENCE_SECONDS)
        wait_until(lambda: all(result.running() for result in results), "all threads")
        gate.set()
        return [result.result() for result in results]


def test_a_hundred_threads_share_one_run() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential(token="t"), gate=gate)
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
    runs = Runs(ClusterCredential(token="old"), ClusterCredential(token="new"), gate=gate)
    authenticator = Authenticator(runs)
    refused = authenticator.credential()
    gate.clear()
    runs.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(authenticator.renew, refused)
        assert runs.begun.wait(PATIENCE_SECONDS)
        # Who has not been refused is not held up.
        assert authenticator.credential() is refused
        results = together(lambda: authenticator.renew(refused), gate, runs.begun)
        assert renewal.result().token == "new"
    assert runs.count == 2
    assert {result.token for result in results if isinstance(result, ClusterCredential)} == {"new"}


@pytest.mark.parametrize(
    ("expires_ns", "now_ns", "is_valid"),
    [
        pytest.param(None, NOW, True, id="without an expiry it never ends"),
        pytest.param(None, 2**63, True, id="not even in the far future"),
        pytest.param(NOW, NOW - 1, True, id="a nanosecond before"),
        pytest.param(NOW, NOW, True, id="at its very expiry"),
        pytest.param(NOW, NOW + 1, False, id="a nanosecond after"),
        pytest.param(0, NOW, False, id="ended in 1970"),
    ],
)
def test_a_credential_is_good_up_to_and_including_its_expiry(
    expires_ns: int | None, now_ns: int, *, is_valid: bool
) -> None:
    clock = SteppedClock(0)
    runs = Runs(ClusterCredential(token="a", expires_ns=expires_ns), ClusterCredential(token="b"))
    authenticator = Authenticator(runs, clock=clock)
    assert authenticator.ready() is None
    first = authenticator.credential()
    clock.now_ns = now_ns
    assert authenticator.ready() is (first if is_valid else None)
    assert (authenticator.credential().token, runs.count) == (("a", 1) if is_valid else ("b", 2))
    assert authenticator.expires_ns == (expires_ns if is_valid else None)


def test_a_refusal_counts_only_against_the_current_credential() -> None:
    runs = Runs(*(ClusterCredential(token=token) for token in "abc"))
    authenticator = Authenticator(runs)
    first = authenticator.credential()
    second = authenticator.renew(first)
    assert second.token == "b"
    assert authenticator.renew(first) is second
    # A plugin may give the same token again; what a request under way has is still another credential.
    assert authenticator.renew(ClusterCredential(token="b")) is second
    assert runs.count == 2


def test_a_failure_says_of_which_cluster_and_plugin() -> None:
    with pytest.raises(ClusterAuthError) as caught:
        Authenticator(Runs(failure()), server="https://k").credential()
    error = caught.value
    assert error.kubernetes_text == "getting credentials: exec: executable plugin failed with exit code 1"
    assert isinstance(error.underlying, PluginExitError)
    assert str(error).startswith("cluster 'https://k': no credential: plugin 'plugin'")
    # The frames of a run hold what the plugin printed.
    assert (error.underlying.__traceback__, error.__context__) == (None, None)


@pytest.mark.parametrize(
    ("failures", "pause_seconds"),
    [(1, 0), (2, 0.5), (3, 1), (4, 2), (5, 4), (6, 8), (7, 16), (8, 30), (9, 30), (30, 30), (1_000, 30)],
)
def test_the_pause_grows_from_the_second_failure_on_and_ends_at_half_a_minute(
    failures: int, pause_seconds: float
) -> None:
    monotonic = SteppedClock(0)
    runs = Runs(failure())
    authenticator = Authenticator(runs, monotonic=monotonic)
    for _ in range(failures):
        monotonic.step(30)
        with pytest.raises(ClusterAuthError):
            authenticator.credential()
    assert runs.count == failures
    end = monotonic.now_ns + int(pause_seconds * SECOND)
    if pause_seconds:
        monotonic.now_ns = end - 1
        with pytest.raises(ClusterAuthError):
            authenticator.credential()
        assert runs.count == failures
    monotonic.now_ns = end
    with pytest.raises(ClusterAuthError):
        authenticator.credential()
    assert runs.count == failures + 1


def test_a_refusal_waits_out_the_pause_and_the_old_credential_stays_in_use() -> None:
    """As in client-go, a failed refresh after a 401 leaves the old credential in use."""
    monotonic = SteppedClock(0)
    runs = Runs(ClusterCredential(token="a"), failure(), failure(), ClusterCredential(token="b"))
    authenticator = Authenticator(runs, monotonic=monotonic)
    refused = authenticator.credential()
    for _ in range(4):
        with pytest.raises(ClusterAuthError):
            authenticator.renew(refused)
    assert runs.count == 3
    assert authenticator.credential() is refused
    monotonic.step(1)
    assert authenticator.renew(refused).token == "b"


def test_success_forgets_the_failures() -> None:
    """The first failure after it is followed by a run again."""
    monotonic, clock = SteppedClock(0), SteppedClock(NOW)
    ended = ClusterCredential(token="t", expires_ns=NOW - 1)
    runs = Runs(failure(), failure(), ended, failure(), ClusterCredential(token="u"))
    authenticator = Authenticator(runs, monotonic=monotonic, clock=clock)
    for _ in range(2):
        with pytest.raises(ClusterAuthError):
            authenticator.credential()
    monotonic.step(1)
    assert authenticator.credential() is ended
    assert authenticator.last_error is None
    with pytest.raises(ClusterAuthError):
        authenticator.credential()
    assert authenticator.credential().token == "u"


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
    credential = ClusterCredential(token="t")
    calls: list[int] = []
    begun = threading.Event()

    def run() -> ClusterCredential:
        calls.append(1)
        begun.set()
        assert gate.wait(PATIENCE_SECONDS)
        if len(calls) == 1:
            raise Interrupted
        return credential

    authenticator = Authenticator(run)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(authenticator.credential)
        assert begun.wait(PATIENCE_SECONDS)
        second = pool.submit(authenticator.credential)
        wait_until(second.running)
        gate.set()
        assert second.result() is credential
        with pytest.raises(Interrupted):
            first.result()


@pytest.mark.parametrize("expires_ns", [2000 * SECOND, None])
def test_an_unusable_certificate_is_reported_once_and_the_old_credential_lives_on(
    expires_ns: int | None,
) -> None:
    """A quirk of client-go that is kept: the expiry is stored before the key pair is looked at."""
    clock = SteppedClock(1000 * SECOND)
    bad = UnusableCertificateError("plugin", "its answer: no", "failed parsing", expires_ns)
    runs = Runs(ClusterCredential(token="a", expires_ns=1000 * SECOND), bad)
    authenticator = Authenticator(runs, clock=clock)
    authenticator.credential()
    clock.step(1)
    with pytest.raises(ClusterAuthError):
        authenticator.credential()
    clock.now_ns = 2000 * SECOND
    assert (authenticator.credential().token, authenticator.expires_ns) == ("a", expires_ns)
    assert isinstance(authenticator.last_error, UnusableCertificateError)


def test_a_task_that_gives_up_takes_the_run_from_no_other() -> None:
    gate = threading.Event()
    runs = Runs(ClusterCredential(token="t"), gate=gate)
    authenticator = Authenticator(runs)

    async def main() -> list[object]:
        tasks = [asyncio.create_task(authenticator.credential_async()) for _ in range(5)]
        await asyncio.to_thread(runs.begun.wait, PATIENCE_SECONDS)
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
    runs = Runs(ClusterCredential(token="t"), gate=gate)
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


@pytest.mark.parametrize("where", ["run", "lock"])
def test_a_fork_leaves_the_child_free_to_run_its_own(where: str) -> None:
    """In the middle of a run, and while a thread of the parent holds the locks, of which the child has its own."""
    gate = threading.Event()
    runs = Runs(ClusterCredential(token="t"), gate=gate)
    parent_pid, held = os.getpid(), threading.Event()

    def monotonic() -> int:
        if where == "lock" and os.getpid() == parent_pid:
            held.set()
            assert gate.wait(PATIENCE_SECONDS)
        return 0

    authenticator = Authenticator(runs, monotonic=monotonic)
    with ThreadPoolExecutor(1) as pool:
        parent = pool.submit(authenticator.credential)
        assert (held if where == "lock" else runs.begun).wait(PATIENCE_SECONDS)
        before = runs.count

        def child() -> None:
            gate.set()
            assert authenticator.credential().token == "t"
            assert runs.count == before + 1

        assert exit_code_in_fork(child) == 0
        gate.set()
        assert parent.result().token == "t"
    assert runs.count == 1


def test_a_fork_while_an_authenticator_is_made_does_not_hang_the_child() -> None:
    held, done = threading.Event(), threading.Event()

    def make() -> Authenticator:
        held.set()
        assert done.wait(PATIENCE_SECONDS)
        return Authenticator(Runs(ClusterCredential(token="u")))

    def child() -> None:
        assert make_session(CLIENT).authenticator is not None

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(shared_authenticator, "held", make)
        assert held.wait(PATIENCE_SECONDS)
        assert exit_code_in_fork(child) == 0
        done.set()
        making.result()


# Sharing

PLUGIN = ExecConfig(command="/bin/plugin", api_version=API_VERSION, interactive_mode="Never")
CLIENT = ClientConfig(
    server="https://one", exec=PLUGIN, exec_cluster=ClusterInfo(server="https://one"), user_name="admin"
)


def client(plugin: ExecConfig = PLUGIN, server: str = "https://one", **cluster: object) -> ClientConfig:
    info = ClusterInfo(server=server, **cluster)  # type: ignore[arg-type] # one field by name
    return replace(CLIENT, server=server, exec=plugin, exec_cluster=info)


def listing(command: str) -> PluginPolicy:
    return PluginPolicy(policy_type="Allowlist", allowlist=(AllowlistEntry(command=command),))


def test_the_same_config_shares_one_authenticator_whoever_asks() -> None:
    one = make_session(CLIENT)
    other = make_session(replace(client(), user_name="someone", context="else"), retries=False)
    assert one.authenticator is not None
    assert one.authenticator is other.authenticator


OTHERS = {
    "command": client(replace(PLUGIN, command="/bin/other")),
    "args": client(replace(PLUGIN, args=("a",))),
    "no args and none given": client(replace(PLUGIN, args=())),
    "env": client(replace(PLUGIN, env=(ExecEnvVar(name="A", value="b"),))),
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
        PluginSettings(policy=PluginPolicy(policy_type="AllowAll")),
        PluginSettings(policy=listing("/bin/plugin")),
        PluginSettings(stdin_unavailable=True),
        PluginSettings(timeout_seconds=5.0),
        PluginSettings(backs_off=False),
        PluginSettings(stderr_tail=Tail()),
    ],
    ids=["policy", "allowlist", "stdin", "timeout", "back-off", "stderr"],
)
def test_what_may_run_and_how_is_part_of_what_is_shared(settings: PluginSettings) -> None:
    """A session with a strict policy never gets what one without a policy has run."""
    one = make_session(CLIENT)
    assert one.authenticator is not make_session(CLIENT, settings).authenticator


def test_an_authenticator_ends_with_its_last_session() -> None:
    """In contrast to client-go: credentials of a cluster that is no longer used are not kept."""
    session = make_session(client(replace(PLUGIN, args=("only here",))))
    assert session.authenticator is not None
    authenticator = weakref.ref(session.authenticator)
    del session
    gc.collect()
    assert authenticator() is None


def test_sharing_is_safe_in_many_threads() -> None:
    with ThreadPoolExecutor(50) as pool:
        sessions = list(pool.map(lambda _: make_session(CLIENT), range(500)))
    assert len({id(each.authenticator) for each in sessions}) == 1
