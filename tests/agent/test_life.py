"""The life of an agent: it starts, is replaced without a refused connection, and stops without losing a request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry import __version__
from keyferry.agent.management import hand_over_reply, take_over_entries
from keyferry.agent.settings import DEFAULTS, default_socket
from support.agent_here import AgentHere, agent_here
from support.agents import RunningAgent, ask, make_token
from support.commands import run_in_process
from support.parts import need
from support.plugins import (
    IMAGE,
    PATIENCE_SECONDS,
    PLUGIN,
    READ_IMAGE,
    REGISTRY,
    Node,
    is_running,
    provider_entry,
    wait_until,
    write_config,
)
from support.scripted import SECOND, Clock
from support.scripted_agent import ScriptedAgent
from support.shims import Place, build, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")


@pytest.fixture
def node(node: Node) -> Node:
    """The same, with its config."""
    write_config(node.config, [provider_entry()])
    return node


@pytest.fixture
def start(node: Node) -> Iterator[Starter]:
    """Starts agents, and ends those that still run."""
    starter = Starter(node)
    yield starter
    for agent in starter.agents:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.process.wait()


class Starter:
    """Several agents at one place."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.agents: list[RunningAgent] = []

    def __call__(self, *flags: str, environ: dict[str, str] | None = None) -> RunningAgent:
        """Start one more, and wait until it serves."""
        self.agents.append(RunningAgent(self.node, *flags, environ=environ))
        return self.agents[-1].wait_ready()


def test_a_stop_is_clean_and_leaves_nothing(start: Starter) -> None:
    agent = start()
    assert agent.stop() == 0
    assert not os.path.exists(agent.socket)
    words = [line.split(maxsplit=2)[2].partition("=")[0] for line in agent.log.splitlines()]
    assert words == ["ready socket", "stopping connections", "stopped"]


def test_a_request_under_way_is_answered_before_the_end(node: Node) -> None:
    node.recording(before='until [ -e "$HERE/go" ]; do sleep 0.05; done')
    answers: list[int] = []
    with agent_here(node) as agent:
        asking = threading.Thread(target=lambda: answers.append(agent.look_up(IMAGE).status))
        asking.start()
        wait_until(node.runs, "the run")
        agent.begin_to_stop()
        wait_until(lambda: " stopping " in agent.log, "the end")
        node.file("go").touch()
        asking.join()
    assert answers == [200]


def test_no_plugin_is_started_during_the_end(node: Node) -> None:
    """What is cached is answered; the client of anything else does the work itself."""
    node.recording(
        "Image", before='case $image in */slow) until [ -e "$HERE/go" ]; do sleep 0.05; done;; esac'
    )

    def question(image: str) -> bytes:
        body = json.dumps({"image": image})
        return f"POST /v1/lookup HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()

    def status_of(client: socket.socket) -> bytes:
        return client.recv(1 << 20).split(b" ", 2)[1]

    with agent_here(node) as agent, ExitStack() as clients:
        agent.look_up(IMAGE)
        lasting, *asking = (clients.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3))
        for each in (lasting, *asking):
            each.settimeout(PATIENCE_SECONDS)
            each.connect(agent.socket)
        # Clients that have begun a request are waited for.
        lasting.sendall(question(f"{IMAGE}/slow"))
        for each in asking:
            each.sendall(b"POST ")
        wait_until(lambda: len(node.runs()) == 2, "the run")
        agent.begin_to_stop()
        wait_until(lambda: " stopping " in agent.log, "the end")
        for each, image in zip(asking, (f"{IMAGE}/new", IMAGE), strict=True):
            each.sendall(question(image).removeprefix(b"POST "))
        assert [status_of(each) for each in asking] == [b"503", b"200"]
        node.file("go").touch()
        assert status_of(lasting) == b"200"
    assert len(node.runs()) == 2


def test_plugins_that_outlive_the_patience_are_killed(node: Node, start: Starter) -> None:
    """Neither a lookup that runs one plugin after the other nor a queue of lookups keeps the agent from its end."""
    names = ("first", "second")
    for name in names:
        node.shell('sleep 600 & echo $$ $! >> "$HERE/pids"\nsleep 600', name)
    write_config(node.config, [provider_entry(name, matchImages=["*.example"]) for name in names])
    agent = start("--stop-timeout", "200ms")
    # More than the agent has threads.
    clients = [socket.socket(socket.AF_UNIX) for _ in range(80)]
    for number, each in enumerate(clients):
        each.connect(agent.socket)
        version, image = "agent.keyferry.dev/v1", f"r{number}.example/app"
        body = json.dumps({"apiVersion": version, "kind": "LookupRequest", "image": image})
        each.sendall(f"POST /v1/lookup HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    wait_until(node.file("pids").exists, "a run")
    assert agent.stop() == 0
    assert "killed plugins that still ran" in agent.log
    for each in clients:
        each.close()
    left = [int(pid) for pid in node.file("pids").read_text().split() if is_running(int(pid))]
    assert left == []


def test_a_silent_client_does_not_delay_the_end(node: Node) -> None:
    with agent_here(node, "--stop-timeout", "10m") as agent, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(agent.socket)
        wait_until(lambda: agent.status["connections"]["open"] == 2, "the connection")
        agent.stop()


def test_a_successor_takes_the_place_and_the_cache(node: Node) -> None:
    """The first agent serves who is connected, renews nothing more, and leaves the socket alone when it ends."""
    with agent_here(node) as first, socket.socket(socket.AF_UNIX) as kept:
        first.look_up(IMAGE)
        kept.connect(first.socket)
        with agent_here(node) as second:
            assert "took over the cache entries=1" in second.log
            assert second.look_up(IMAGE).document["sources"] == {PLUGIN: "cache"}
            assert second.status["refresh"]["planned"] == 1
            wait_until(lambda: "another process has the socket" in first.log, "the first to notice")
            kept.sendall(b"GET /v1/status HTTP/1.1\r\n\r\n")
            assert b'"takenOver":true' in kept.recv(1 << 20)
            kept.close()
            first.stop()
            assert second.look_up(IMAGE).status == 200
    assert node.runs() == [IMAGE]


@contextmanager
def in_turn(node: Node, *flags: tuple[str, ...]) -> Iterator[list[AgentHere]]:
    """Start agents at one place, each with its flags; the earlier ones have looked up an image."""
    with ExitStack() as running:
        agents: list[AgentHere] = []
        for each in flags:
            if agents:
                agents[-1].look_up(IMAGE)
            agents.append(running.enter_context(agent_here(node, *each)))
        yield agents


def test_tenants_answers_are_not_handed_over(node: Node) -> None:
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "Token",
        "requireServiceAccount": True,
    }
    write_config(node.config, [provider_entry(tokenAttributes=attributes)])
    token = make_token(time.time() + 600)
    with agent_here(node) as first:
        first.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=token)
        assert first.ask("POST", "/v1/handover").document["entries"] == []
        with agent_here(node) as second:
            answer = second.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=token).document
            assert answer["source"] == "run"


@pytest.mark.parametrize("flags", [[("--hand-over", "false"), ()], [(), ("--hand-over", "false")]])
def test_hand_over_can_be_switched_off(node: Node, flags: list[tuple[str, ...]]) -> None:
    """By the earlier agent and by the later one."""
    with in_turn(node, *flags) as (_, second):
        assert second.look_up(IMAGE).document["sources"] == {PLUGIN: "run"}


def test_nothing_is_taken_over_for_a_provider_that_differs(node: Node) -> None:
    other = write_config(node.file("other.json"), [provider_entry(env=[{"name": "A", "value": "new"}])])
    with in_turn(node, (), ("--config", str(other))) as (_, second):
        assert second.look_up(IMAGE).document["sources"] == {PLUGIN: "run"}


def test_nothing_is_taken_over_for_a_plugin_of_another_bin_dir(node: Node) -> None:
    (node.root / "other").mkdir()
    other = Node(node.root / "other")
    other.recording(auth={REGISTRY: ("user", "other-word")})
    with in_turn(node, (), ("--bin-dir", str(other.bin_dir))) as (_, second):
        found = second.look_up(IMAGE).document
    assert [each["password"] for each in found["credentials"]] == ["other-word"]
    assert found["sources"] == {PLUGIN: "run"}


def test_no_connection_is_refused_while_agents_replace_each_other(start: Starter) -> None:
    """Clients connect afresh for every request, while the agent is replaced and the old one stopped."""
    agent = start()
    agent.look_up(IMAGE)
    stop, problems, served = threading.Event(), list[str](), [0]

    def hammer() -> None:
        while not stop.is_set():
            try:
                reply = ask(agent.socket, "POST", "/v1/lookup", {"image": IMAGE})
                if reply.status != 200 or not reply.document["credentials"]:
                    problems.append(f"status {reply.status}")
                served[0] += 1
            except OSError as error:
                problems.append(repr(error))

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(5):
        following = start()
        assert agent.stop() == 0
        agent = following
    stop.set()
    for each in threads:
        each.join()
    assert problems == []
    assert served[0] > 100


def test_a_killed_agent_leaves_a_socket_that_the_next_one_replaces(node: Node, start: Starter) -> None:
    agent = start()
    agent.process.kill()
    agent.process.wait()
    with pytest.raises(ConnectionRefusedError):
        agent.look_up(IMAGE)
    with agent_here(node) as following:
        assert following.look_up(IMAGE).status == 200


def wait_for_another_run(node: Node) -> None:
    """Wait until the plugin is run again."""
    before = len(node.runs())
    wait_until(lambda: len(node.runs()) > before, "another run")


def test_clients_of_an_agent_that_is_killed_fall_back_and_lose_nothing(
    node: Node, start: Starter, tmp_path: Path
) -> None:
    """Shims in both languages and docker's helper, while the agent is killed and started again."""
    socket_path = str(node.root / "run" / "agent.sock")
    places = []
    for kind in ("python", "native"):
        (tmp_path / kind).mkdir()
        place = Place(tmp_path / kind, build(kind, tmp_path / kind), PLUGIN)
        places.append(place)
        shutil.copy(node.bin_dir / PLUGIN, str(place.behind))
    helper = [sys.executable, "-c", "from keyferry.bridge.docker_helper import main; main()", "get"]
    environ = {"KEYFERRY_AGENT": socket_path}
    own = environ | {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    stop, answers = threading.Event(), list[tuple[int, str]]()

    def execute(command: list[str], question: bytes, more: dict[str, str]) -> None:
        while not stop.is_set():
            done = subprocess.run(command, input=question, env=more, capture_output=True, check=False)
            word = "pass" if b'"pass"' in done.stdout else done.stderr.decode()
            answers.append((done.returncode, word))

    jobs = [([str(place.path)], request(IMAGE), environ) for place in places]
    jobs.append((helper, IMAGE.encode(), os.environ | own))
    threads = [threading.Thread(target=execute, args=job) for job in jobs]
    agent = start()
    for each in threads:
        each.start()
    for _ in range(3):
        wait_until(lambda: len(answers) > len(node.runs()), "answers of an agent")
        agent.process.kill()
        agent.process.wait()
        wait_for_another_run(node)
        agent = start()
    wait_until(lambda: len(answers) > len(node.runs()), "answers of the last agent")
    stop.set()
    for each in threads:
        each.join()
    assert set(answers) == {(0, "pass")}


def test_a_broken_config_stops_the_start_with_its_problems(node: Node) -> None:
    node.config.write_text("{")
    done = run_in_process(
        *("agent", "run", "--socket", str(node.root / "s" / "a.sock")),
        *("--config", str(node.config), "--bin-dir", str(node.bin_dir)),
    )
    assert done.returncode == 3
    assert str(node.config) in done.stderr
    assert not (node.root / "s" / "a.sock").exists()


class Supervisor:
    """systemd's end of the notification socket."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(20)

    def next(self) -> dict[str, str]:
        """Wait for the next message."""
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def close(self) -> None:
        """End listening."""
        self._socket.close()


@pytest.mark.parametrize("command", ["run", "config"])
def test_an_agent_without_a_provider_config_names_every_place_for_one(node: Node, command: str) -> None:
    """Its own config file among them."""
    config = node.root / "agent.yaml"
    config.write_text("apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n")
    words = ("agent", command, "--agent-config", str(config))
    nowhere = partial(run_in_process, *words, KEYFERRY_HOST_ROOT="/nowhere", KEYFERRY_BIN_DIR="")
    done = nowhere(KEYFERRY_CONFIG="")
    assert done.returncode == 3
    wanted = "give --image-credential-provider-config or KEYFERRY_CONFIG, or set providerConfig in"
    assert f"no provider config found: {wanted} {config};" in done.stderr
    done = nowhere(KEYFERRY_CONFIG=str(node.config))
    assert done.returncode == 3
    wanted = "give --image-credential-provider-bin-dir or KEYFERRY_BIN_DIR, or set binDir in"
    assert f"no bin dir found for the config {node.config}: {wanted} {config}" in done.stderr


def test_systemd_is_told_of_every_turn(node: Node, start: Starter) -> None:
    """Ready, reloading with the time and ready again (also for a broken config), stopping."""
    supervisor = Supervisor(node.root / "notify")
    agent = start("--watch", "false", environ={"NOTIFY_SOCKET": supervisor.path})
    assert supervisor.next() == {"READY": "1"}
    for text in (node.config.read_text(), "{"):
        node.config.write_text(text)
        agent.process.send_signal(signal.SIGHUP)
        reloading = supervisor.next()
        assert reloading["RELOADING"] == "1"
        assert 0 < int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        assert supervisor.next() == {"READY": "1"}
    agent.stop()
    assert supervisor.next() == {"STOPPING": "1"}
    supervisor.close()


def test_the_watchdog_is_fed(node: Node, start: Starter) -> None:
    supervisor = Supervisor(node.root / "notify")
    start(environ={"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "200000"})
    found = [supervisor.next() for _ in range(4)]
    assert found.count({"WATCHDOG": "1"}) >= 3
    supervisor.close()


def test_what_systemd_tells_the_agent_is_not_told_to_plugins(node: Node, start: Starter) -> None:
    """A plugin could report in its name, or take its sockets; the rest of the environment is the plugin's as well."""
    node.recording("Image", before='env >"$HERE/environment"')
    supervisor = Supervisor(node.root / "notify")
    given = {"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}
    given |= dict.fromkeys(("LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "FDSTORE"), "1")
    agent = start(environ=given | {"INVOCATION_ID": "its-own"})
    assert supervisor.next() == {"READY": "1"}
    for image in (IMAGE, f"{IMAGE}-after-a-reload"):
        agent.look_up(image)
        found = (node.root / "environment").read_text().splitlines()
        assert {line.partition("=")[0] for line in found}.isdisjoint(given)
        assert {"INVOCATION_ID=its-own", f"PATH={os.environ['PATH']}", "KEYFERRY_AGENT=off"} <= set(found)
        assert agent.ask("POST", "/v1/reload").status == 200
    assert node.runs() == [IMAGE, f"{IMAGE}-after-a-reload"]
    supervisor.close()


def is_listening(path: Path) -> bool:
    """Return whether somebody listens at a socket; for a moment it is bound and nobody does."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return any(line.split()[3] == "00010000" for line in lines if line.endswith(f" {path}"))


def test_systemd_activates_it_by_its_socket(node: Node) -> None:
    """The agent starts with the first client, on a socket that it neither binds nor removes."""
    path = node.root / "activated.sock"
    command = [
        need("systemd-socket-activate"),
        "-l",
        str(path),
        sys.executable,
        "-m",
        "keyferry",
        "agent",
        "run",
    ]
    places = ["--config", str(node.config), "--bin-dir", str(node.bin_dir)]
    process = subprocess.Popen(
        [*command, *places], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: is_listening(path), "the socket")
        assert ask(str(path), "POST", "/v1/lookup", {"image": IMAGE}).document["credentials"]
        status = ask(str(path), "GET", "/v1/status").document
        assert (status["socketActivated"], status["sockets"]) == (True, [str(path)])
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert path.exists()
    finally:
        process.kill()
        process.wait()


def test_a_renewal_is_planned_and_can_be_switched_off(node: Node) -> None:
    """An answer for ten minutes is renewed after 5 to 9, too late for a test; the refresher has tests of its own."""
    with agent_here(node) as agent:
        agent.look_up(IMAGE)
        [planned] = agent.status["refresh"]["next"]
        assert (planned["provider"], planned["failures"]) == (PLUGIN, 0)
    with agent_here(node, "--refresh-ahead", "false") as agent:
        agent.look_up(IMAGE)
        assert agent.status["refresh"]["on"] is False


def test_memory_stays_flat(start: Starter) -> None:
    """Thousands of requests, also for images that are never asked for again, leave no trace that grows."""
    agent = start()

    def burst(first: int) -> None:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(agent.socket)
        reader = connected.makefile("rb")
        for number in range(first, first + 4000):
            body = json.dumps({"image": f"{IMAGE}{number}"}).encode()
            connected.sendall(b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            length = 0
            while (line := reader.readline().strip()) != b"":
                length = int(line.partition(b":")[2]) if line.startswith(b"content-length") else length
            assert b'"credentials":[{' in reader.read(length)
        reader.close()
        connected.close()

    burst(0)
    before = used_kib(agent)
    burst(4000)
    burst(8000)
    assert used_kib(agent) - before < 1024


def used_kib(agent: RunningAgent) -> int:
    """The memory of an agent."""
    text = Path(f"/proc/{agent.process.pid}/smaps_rollup").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])


def test_the_limit_of_the_cache_is_one_of_the_process(node: Node, start: Starter) -> None:
    """Answers of 400 KB for each image, each asked for twice, the second time from the cache: none is kept beside."""
    node.file("long").write_text("x" * 400_000)
    head = '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1"'
    fields = (
        f'"cacheKeyType":"Image","cacheDuration":"10m","auth":{{"{REGISTRY}":{{"username":"u","password":"'
    )
    node.shell(f'{READ_IMAGE}printf %s \'{head},{fields}\' "$image"\ncat "$HERE/long"\nprintf \'"}}}}}}\'')
    limit = 1 << 20
    agent = start("--cache-bytes", str(limit))

    def burst(first: int, number: int) -> None:
        for image in (f"{IMAGE}{each}" for each in range(first, first + number)):
            for source in ("run", "cache"):
                assert agent.look_up(image).document["sources"] == {PLUGIN: source}

    burst(0, 20)
    before = used_kib(agent)
    burst(20, 100)
    [provider] = agent.status["providers"]
    assert 400_000 < provider["cache"]["bytes"] <= limit
    # A hundred answers are 40 MB, and as much again as JSON.
    assert used_kib(agent) - before < 8 * 1024


def handed_over(clock: Clock) -> dict[str, object]:
    first = ScriptedAgent(clock=clock)
    first.look_up(step=100)
    found = json.loads(hand_over_reply(first.providers, clock.now).body)
    assert isinstance(found, dict)
    return found


def test_the_successor_has_the_answers_with_the_time_that_is_left() -> None:
    """On a clock of its own, which has another zero."""
    document, second = handed_over(Clock()), ScriptedAgent(clock=Clock(7 * SECOND))
    assert take_over_entries(second.providers, document, second.clock.now) == 1
    [provision] = second.providers.lookup("reg.io/other").provisions
    assert (str(provision.outcome), provision.expires_ns) == ("cached", 507 * SECOND)
    assert provision.got_ns == (7 - 100) * SECOND
    assert second.plugin.runs == 0


def test_another_version_gives_nothing() -> None:
    clock = Clock()
    document = handed_over(clock) | {"version": "9"}
    assert take_over_entries(ScriptedAgent(clock=clock).providers, document, clock.now) == 0


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["plugin", "Registry", "reg.io/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = ("provider", "config", "image", "cacheKeyType", "millisecondsLeft", "millisecondsOld", "auth")


@given(st.lists(st.dictionaries(st.sampled_from(names), values) | values, max_size=4))
def test_what_is_no_cache_does_no_harm(entries: list[object]) -> None:
    second = ScriptedAgent()
    assert (
        take_over_entries(second.providers, {"version": __version__, "entries": entries}, second.clock.now)
        == 0
    )


UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
SERVICE, SOCKET = "keyferry-agent.service", "keyferry-agent.socket"


def read_unit(name: str) -> dict[str, str]:
    """The settings of a unit; none of them is given twice, but for the filter, whose lines add up."""
    found: dict[str, str] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            assert key not in found or key == "SystemCallFilter"
            found[key] = value
    return found


def test_the_units_and_the_agent_agree() -> None:
    service, listening = read_unit(SERVICE), read_unit(SOCKET)
    assert listening["ListenStream"] == default_socket({}, 0)
    assert (listening["SocketMode"], listening["DirectoryMode"]) == ("0660", "0750")
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) > 10  # the agent's own limit
    assert service["CapabilityBoundingSet"] == ""


def test_the_memory_of_the_unit_is_enough_for_two_providers_with_full_caches() -> None:
    """By the table of the docs, whose figures are those of the code."""
    page = (UNITS.parents[1] / "docs" / "agent.md").read_text(encoding="utf-8")
    table = page.partition("## Memory")[2].partition("## ")[0]
    cache_bytes = int(DEFAULTS["cacheBytes"])
    assert f"`cacheBytes` ({cache_bytes >> 20} MiB by default)" in table
    limit = read_unit(SERVICE)["MemoryMax"]
    assert f"`MemoryMax={limit}`" in table
    assert 2 * 2 * cache_bytes + (100 << 20) <= int(limit.removesuffix("M")) << 20
