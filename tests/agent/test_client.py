"""The library asks the node agent first, and only what stands for its own config counts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import keyferry
from keyferry import Answer, Pod, Providers, ServiceAccount, StaticAccount
from support.agent_here import agent_here
from support.agent_server import answered, bound, refusal, serving
from support.agents import Agent, RunningAgent, counting_node, make_token, running_agent
from support.commands import plain_pod, run_in_process
from support.images import build, push
from support.parts import root
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    SteppedClock,
    print_answer,
    provider_entry,
    wait_until,
    write_config,
)
from support.registry import basic, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
SECRET = "hidden-9f31"
NOBODY = 65534


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return counting_node(tmp_path, SECRET)


@pytest.fixture
def killable(node: Node) -> Iterator[RunningAgent]:
    """An agent of that node, to be killed or stopped."""
    with running_agent(node) as running:
        yield running


def load(node: Node, agent: str | Path, **settings: object) -> Providers:
    return keyferry.load_providers(node.config, node.bin_dir, agent=str(agent), **settings)  # type: ignore[arg-type] # as given


def told(answer: Answer) -> tuple[str, dict[str, object]]:
    """Return the text and the agent's facts of the only provider's reason."""
    (reason,) = (each for each in answer.reasons if each.stage == "provider")
    agent = reason.facts.get("agent", {})
    assert isinstance(agent, dict)
    assert all(SECRET not in f"{each.text} {each.facts}" for each in answer.reasons)
    return reason.text, agent


def fallback(answer: Answer, node: Node, runs: int = 1) -> str:
    """Check that the plugin was run here, with its usual result; return the word for why."""
    assert [(each.username, each.password) for each in answer.credentials] == [("user", SECRET)]
    assert len(node.runs()) == runs
    text, agent = told(answer)
    assert text.startswith("the plugin ran for ")
    assert f"; the node agent was not used: {agent['why']}" in text
    assert agent["used"] is False
    return str(agent["fallback"])


def test_the_agent_answers_from_its_cache(agent: Agent) -> None:
    providers = load(agent.node, agent.socket)
    first, second = providers.lookup(IMAGE), providers.lookup(f"{REGISTRY}/other")
    assert told(first)[0] == "the node agent ran the plugin: 1 auth key"
    text, facts = told(second)
    assert text == "from the cache of the node agent, the plugin was not run: 1 auth key"
    assert facts == {"used": True, "fallback": "", "why": ""}
    assert [str(each.provisions[0].outcome) for each in (first, second)] == ["ran", "cached"]
    assert len(agent.node.runs()) == 1


def test_auto_is_the_place_that_the_environment_names(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFERRY_AGENT", agent.socket)
    assert told(load(agent.node, "auto").lookup(IMAGE))[1]["used"] is True
    monkeypatch.setenv("KEYFERRY_AGENT", "off")
    assert told(load(agent.node, "auto").lookup(IMAGE))[1] == {}


@pytest.mark.parametrize("place", ["", "on", "agent.sock"])
def test_another_word_for_an_agent_is_refused(node: Node, place: str) -> None:
    with pytest.raises(ValueError, match="'off', 'auto' or the absolute path"):
        load(node, place)


def test_nothing_of_the_agent_is_cached_here(agent: Agent) -> None:
    """An eviction or a reload in the agent counts at once."""
    providers = load(agent.node, agent.socket)
    providers.lookup(IMAGE)
    agent.node.recording(auth={REGISTRY: ("renewed", "other")})
    evicted = agent.ask(
        "POST", "/v1/evict", {"image": IMAGE, "username": "user", "password": SECRET}
    ).document
    assert evicted["evicted"] is True
    assert [each.username for each in providers.lookup(IMAGE).credentials] == ["renewed"]


def test_an_agent_that_is_killed_in_the_middle_of_a_request(node: Node) -> None:
    """The client falls back at once, and loses nothing."""
    node.recording(auth={REGISTRY: ("user", SECRET)}, before='[ "$RUN" != 1 ] || sleep 60')
    with running_agent(node) as agent:
        found: list[Answer] = []
        asking = threading.Thread(target=lambda: found.append(load(node, agent.socket).lookup(IMAGE)))
        asking.start()
        wait_until(lambda: len(node.runs()) == 1, "the run in the agent")
        agent.process.send_signal(signal.SIGKILL)
        asking.join()
    assert fallback(found[0], node, runs=2) in ("refused", "garbled")


def test_an_agent_that_hangs_is_not_asked_again_at_once(killable: RunningAgent) -> None:
    killable.node.recording(auth={REGISTRY: ("user", SECRET)}, duration="0s")
    clock = SteppedClock()
    providers = load(killable.node, killable.socket, clock=clock)
    killable.process.send_signal(signal.SIGSTOP)
    try:
        # Half of the time is the agent's, so that there is time left for the plugin.
        assert fallback(providers.lookup(IMAGE, timeout_seconds=2.0), killable.node) == "slow"
        answer = providers.lookup(IMAGE)
        assert fallback(answer, killable.node, runs=2) == "slow"
        assert "is not asked again yet" in told(answer)[0]
    finally:
        killable.process.send_signal(signal.SIGCONT)
    clock.step(31)
    assert told(providers.lookup(IMAGE))[1]["used"] is True


@pytest.mark.parametrize("word", ["absent", "refused", "busy"])
def test_an_agent_that_cannot_be_asked(node: Node, word: str) -> None:
    place = node.root / "run" / "agent.sock"
    place.parent.mkdir(mode=0o700)
    with ExitStack() as stack:
        if word == "busy":
            stack.enter_context(bound(place, backlog=0))
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(place))
        elif word == "refused":
            with bound(place):
                pass
        assert fallback(load(node, place).lookup(IMAGE), node) == word


@root
@pytest.mark.parametrize("what", ["socket", "folder", "writable"])
def test_a_socket_that_others_can_replace_is_not_asked(agent: Agent, what: str) -> None:
    folder = os.path.dirname(agent.socket)
    if what == "writable":
        Path(folder).chmod(0o777)
    else:
        os.chown(agent.socket if what == "socket" else folder, NOBODY, NOBODY)
    assert fallback(load(agent.node, agent.socket).lookup(IMAGE), agent.node) == "untrusted"


def test_an_agent_with_another_config_is_not_used(agent: Agent) -> None:
    """Not even where the provider has the same name; the agent runs no plugin for such a question."""
    write_config(agent.node.config.with_name("other.json"), [provider_entry(args=["--other"])])
    other = keyferry.load_providers(
        agent.node.config.with_name("other.json"), agent.node.bin_dir, agent=agent.socket
    )
    assert fallback(other.lookup(IMAGE), agent.node) == "other config"


def test_an_agent_with_another_bin_dir_is_not_used(agent: Agent, tmp_path: Path) -> None:
    elsewhere = Node(tmp_path / "elsewhere")
    elsewhere.root.mkdir()
    elsewhere.recording(auth={REGISTRY: ("user", SECRET)})
    found = keyferry.load_providers(agent.node.config, elsewhere.bin_dir, agent=agent.socket).lookup(IMAGE)
    assert fallback(found, elsewhere) == "other config"
    assert agent.node.runs() == []


def test_a_config_that_changed_since_it_was_loaded_is_not_asked_for(node: Node) -> None:
    """The providers of this process are those of the old config, and the agent has the new one."""
    old = load(node, node.root / "run" / "agent.sock")
    write_config(node.config, [provider_entry(defaultCacheDuration="1m")])
    with agent_here(node):
        assert fallback(old.lookup(IMAGE), node) == "other config"


@pytest.mark.parametrize("settings", [{"environ": {"PATH": "/bin:/usr/bin"}}, {"withhold_env": ["HOME"]}])
def test_an_environment_of_its_own_is_not_the_agents(agent: Agent, settings: dict[str, object]) -> None:
    assert fallback(load(agent.node, agent.socket, **settings).lookup(IMAGE), agent.node) == "off"


def test_a_plugin_that_failed_in_the_agent_is_run_here(node: Node) -> None:
    """The user and the environment of this process may be others; if it fails here too, the error is this one."""
    node.recording(auth={REGISTRY: ("user", SECRET)}, before='[ "$RUN" != 1 ] || { echo no >&2; exit 3; }')
    with agent_here(node) as agent:
        assert fallback(load(node, agent.socket).lookup(IMAGE), node, runs=2) == "failed"
    node.shell("exit 5")
    with agent_here(node) as agent:
        answer = load(node, agent.socket).lookup(IMAGE)
    assert [str(each) for each in answer.failures] == [str(answer.provisions[0].error)]
    assert "; the node agent was not used: the plugin failed in the agent: " in told(answer)[0]


def test_a_plugin_that_cannot_be_started_in_the_agent_is_run_here(node: Node) -> None:
    """The agent's place may lack a file that this process has."""
    node.recording(auth={REGISTRY: ("user", SECRET)}, before='[ "$RUN" != 1 ] || exit 127')
    with agent_here(node) as agent:
        answer = load(node, agent.socket).lookup(IMAGE)
    assert fallback(answer, node, runs=2) == "not started"
    assert "; the node agent was not used: the plugin was not started in the agent: " in told(answer)[0]


def other_agents() -> dict[str, object]:
    older = answered(SECRET)
    return {
        "other version": older,
        "other config": {**older, "configHash": "sha256:0"},
        "forbidden": (403, refusal("Forbidden")),
        "unknown provider": (404, refusal("UnknownProvider")),
        "busy": (503, refusal("Busy")),
        "stopping": (503, refusal("Stopping")),
        "garbled": b"not HTTP",
    }


@pytest.mark.parametrize("word", other_agents())
def test_an_answer_that_cannot_be_used_says_why(node: Node, word: str) -> None:
    place = node.root / "run" / "agent.sock"
    with serving(place, lambda _: other_agents()[word]):  # type: ignore[arg-type,return-value] # one of its kinds
        assert fallback(load(node, place).lookup(IMAGE), node) == word


def test_the_text_of_an_agent_is_harmless(node: Node) -> None:
    place = node.root / "run" / "agent.sock"
    with serving(place, lambda _: (403, {"kind": "Status", "message": "no \x1b[2J"})):
        text, _ = told(load(node, place).lookup(IMAGE))
    assert "\x1b" not in text
    assert "no \N{REPLACEMENT CHARACTER}[2J" in text


def test_an_answer_of_the_agent_is_for_its_image_alone(node: Node) -> None:
    """Whoever waits for it with another image asks the agent: it may give this user less for that one, or more."""
    place, other = node.root / "run" / "agent.sock", f"{REGISTRY}/other"
    go, readings = threading.Event(), []

    def clock() -> int:
        readings.append(1)
        return 0

    def answer(request: dict[str, object]) -> dict[str, object]:
        assert go.wait(20)
        return {**answered(f"for {request['image']}"), "configHash": request["configHash"]}

    with serving(place, answer) as server, ThreadPoolExecutor(2) as pool:
        providers = load(node, place, clock=clock)
        first = pool.submit(providers.lookup, IMAGE)
        wait_until(lambda: server.requests, "the first question")
        before = len(readings)
        second = pool.submit(providers.lookup, other)
        wait_until(lambda: len(readings) > before, "the second lookup")
        go.set()
        found = [each.result().credentials[0].password for each in (first, second)]
    assert found == [f"for {IMAGE}", f"for {other}"]
    assert [each["image"] for each in server.requests] == [IMAGE, other]


def test_tokens_are_passed_on_and_answers_stay_apart(node: Node) -> None:
    tokens = {"serviceAccountTokenAudience": "registry", "cacheType": "Token", "requireServiceAccount": True}
    write_config(node.config, [provider_entry(tokenAttributes=tokens)])
    say = print_answer(auth={REGISTRY: ("user", SECRET)})
    node.shell(f'cat >> "$HERE/requests"; {say}')
    pod, end = Pod(namespace="ns", name="web", uid="u1", service_account_name="builder"), time.time() + 3600
    with agent_here(node) as agent:
        for number, how in ((1, "ran"), (1, "cached"), (2, "ran")):
            token = make_token(end, f"signature-{number}")
            accounts = StaticAccount(account=ServiceAccount(uid="a1"), token_text=token)
            answer = load(node, agent.socket, service_accounts=accounts).lookup(IMAGE, pod=pod)
            assert (answer.provisions[0].is_from_agent, str(answer.provisions[0].outcome)) == (True, how)
            assert str(answer.credentials[0].source.service_account) == str(answer.provisions[0].account)
            assert all(token not in f"{each.text} {each.facts}" for each in answer.reasons)
        assert token not in agent.log
    assert len(node.file("requests").read_text().splitlines()) == 2


ASK = """
import keyferry, sys
config, bin_dir, socket, image = sys.argv[1:]
answer = keyferry.load_providers(config, bin_dir, agent=socket).lookup(image)
print(answer.credentials[0].username, answer.provisions[0].outcome, answer.provisions[0].is_from_agent)
"""


def test_a_refused_credential_is_evicted_in_the_agent(agent: Agent) -> None:
    providers = load(agent.node, agent.socket)
    refused = providers.lookup(IMAGE).credentials[0]
    assert providers.evict(IMAGE, refused) is True
    assert told(providers.lookup(IMAGE))[0].startswith("the node agent ran the plugin")
    assert len(agent.node.runs()) == 2


def test_an_agent_that_keeps_a_refused_credential_is_passed_by(node: Node) -> None:
    """It may not let this user evict; without it, the plugin would be run again."""
    place, clock = node.root / "run" / "agent.sock", SteppedClock()
    providers = load(node, place, clock=clock)
    hashed = providers.config_hash
    with serving(
        place,
        lambda request: (
            (403, refusal("Forbidden"))
            if "password" in request
            else {**answered("stale"), "configHash": hashed}
        ),
    ) as server:
        fields = {"apiVersion", "kind", "image", "username", "password"}
        server.known["/v1/evict"] = ("EvictRequest", fields)
        refused = providers.lookup(IMAGE).credentials[0]
        assert refused.password == "stale"
        assert providers.evict(IMAGE, refused) is True
        assert fallback(providers.lookup(IMAGE), node) == "refused"
        assert providers.evict(IMAGE, refused) is False
        clock.step(601)
        assert providers.lookup(IMAGE).credentials[0].password == "stale"


def test_a_credential_of_this_process_is_not_the_agents_to_evict(node: Node) -> None:
    node.recording(auth={REGISTRY: ("user", SECRET)}, duration="0s")
    providers = load(node, node.root / "none.sock")
    assert providers.evict(IMAGE, providers.lookup(IMAGE).credentials[0]) is False


AS_NOBODY = """
import os
keyferry.load_providers(config, bin_dir, agent=socket).lookup(image).reasons
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
answer = keyferry.load_providers(config, bin_dir, agent=socket).lookup(image)
print(answer.credentials[0].username, [reason.facts for reason in answer.reasons])
"""


@root
def test_a_user_without_a_rule_looks_up_by_itself() -> None:
    """Its reasons tell that the agent refused, although the agent has an answer."""
    with TemporaryDirectory(prefix="agent-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        node = Node(Path(folder))
        node.recording()
        write_config(node.config, [provider_entry()])
        node.file(f"{PLUGIN}.runs").touch()
        node.file(f"{PLUGIN}.runs").chmod(0o666)
        with agent_here(node, "--socket-mode", "0666") as agent:
            Path(agent.socket).parent.chmod(0o755)
            # Modules are loaded as root, since another user may not be able to read them.
            program = ASK.partition("answer")[0] + AS_NOBODY
            run = [sys.executable, "-c", program, str(node.config), str(node.bin_dir), agent.socket, IMAGE]
            done = subprocess.run(run, capture_output=True, text=True, check=False, cwd="/")
            assert done.stdout.startswith("user "), done.stderr
            assert "'fallback': 'forbidden'" in done.stdout
            assert agent.status["providers"][0]["runs"] == 1
        assert len(node.runs()) == 2


def run(node: Node, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    options = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    return run_in_process(*words, *options, cwd=None, KEYFERRY_PROC=str(node.root), **env)


def provider_reason(text: str) -> dict[str, object]:
    reasons = json.loads(text)["reasons"]
    return next(each for each in reasons if each["stage"] == "provider")


FORMATS = (("table",), *((each, "--reveal") for each in ("table", "json", "yaml", "dockerconfig", "env")))


def test_get_prints_the_same_with_and_without_the_agent(agent: Agent) -> None:
    """Also the notes on standard error."""
    for output in FORMATS:
        words = ("get", f"{IMAGE}:v1", "-o", *output, "--agent")
        asked, alone = (run(agent.node, *words, place) for place in (agent.socket, "off"))
        assert (asked.returncode, asked.stdout, asked.stderr) == (0, alone.stdout, alone.stderr)
    # One run in the agent, and one for each command without it.
    assert len(agent.node.runs()) == 1 + len(FORMATS)


def test_get_wide_tells_who_had_it(agent: Agent) -> None:
    for how in ("agent, ran", "agent, cached"):
        assert run(agent.node, "get", IMAGE, "-o", "wide", "--agent", agent.socket).stdout.count(how) == 1
    assert "agent" not in run(agent.node, "get", IMAGE, "-o", "wide", "--agent", "off").stdout


@pytest.mark.parametrize("verb", ["get", "explain", "can-pull"])
def test_a_variable_that_names_no_agent_is_wrong_usage(verb: str, node: Node) -> None:
    """As --agent with the same word; with another agent by the option, the variable does not count."""
    done = run(node, verb, IMAGE, KEYFERRY_AGENT="foo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "KEYFERRY_AGENT is 'foo', expected 'off', 'auto' or the absolute path of a socket" in done.stderr
    assert run(node, "get", IMAGE, "--agent", "off", KEYFERRY_AGENT="foo").returncode == 0


def test_explain_tells_where_each_answer_is_from(agent: Agent) -> None:
    texts = []
    for _ in range(2):
        done = run(agent.node, "explain", IMAGE, "-o", "json", KEYFERRY_AGENT=agent.socket)
        texts.append(provider_reason(done.stdout)["text"])
        assert SECRET not in done.stdout + done.stderr
        assert json.loads(done.stdout)["config"]["environmentFrom"] == "the node agent"
    assert texts[0] == "the node agent ran the plugin: 1 auth key"
    assert texts[1] == "from the cache of the node agent, the plugin was not run: 1 auth key"
    wide = run(agent.node, "explain", IMAGE, "-o", "wide", KEYFERRY_AGENT=agent.socket).stdout
    assert "from the cache of the node agent" in wide


def test_an_option_is_stronger_than_the_environment(agent: Agent) -> None:
    done = run(agent.node, "explain", IMAGE, "-o", "json", "--agent", "off", KEYFERRY_AGENT=agent.socket)
    assert "agent" not in provider_reason(done.stdout)["facts"]  # type: ignore[operator] # a dictionary
    found = run(agent.node, "explain", IMAGE, "-o", "json", "--agent", "auto", KEYFERRY_AGENT=agent.socket)
    assert "node agent ran" in str(provider_reason(found.stdout)["text"])


def test_without_an_agent_nothing_is_said(node: Node) -> None:
    """Unless somebody named one."""
    runtime = str(node.root)
    done = run(node, "explain", IMAGE, "-o", "json", KEYFERRY_AGENT="", XDG_RUNTIME_DIR=runtime)
    assert "agent" not in done.stdout.partition('"reasons"')[2]
    named = run(node, "explain", IMAGE, "-o", "json", KEYFERRY_AGENT=f"{runtime}/none.sock")
    assert "the node agent was not used: there is no agent at" in named.stdout
    assert named.stderr == done.stderr


@pytest.mark.parametrize("option", [("--env-from", "self"), ("--withhold-env", "HOME")])
def test_an_environment_that_is_given_is_not_the_agents(agent: Agent, option: tuple[str, ...]) -> None:
    done = run(agent.node, "explain", IMAGE, "-o", "json", *option, "--agent", agent.socket)
    assert f"not used: {option[0]} is given" in str(provider_reason(done.stdout)["text"])
    assert agent.status["providers"][0]["runs"] == 0


def test_an_agent_that_hangs_delays_a_command_once(killable: RunningAgent) -> None:
    """The time limit of plugins is its too; then the plugin is run here."""
    killable.process.send_signal(signal.SIGSTOP)
    try:
        done = run(killable.node, "get", IMAGE, "-v", "--timeout", "2", "--agent", killable.socket)
        assert done.stderr.count("the agent did not answer in time") == 1
        assert (done.returncode, "user" in done.stdout) == (0, True)
    finally:
        killable.process.send_signal(signal.SIGCONT)


def test_a_hint_is_for_the_agent_that_was_named(node: Node) -> None:
    """And does not say to leave it out."""
    node.shell(print_answer(auth={}))
    place = str(node.root / "none.sock")
    done = run(node, "get", IMAGE, "--agent", place)
    assert done.returncode == 6
    assert (f"--agent {place}" in done.stderr, "--agent off" in done.stderr) == (True, False)


def test_another_word_for_an_agent_is_wrong_usage(node: Node) -> None:
    done = run(node, "get", IMAGE, "--agent=on")
    assert done.returncode == 2
    assert "is neither auto nor off nor the absolute path of a socket" in done.stderr


def test_pulls_ask_the_agent_and_tell_it_what_a_registry_refused(tmp_path: Path) -> None:
    """The agent still has the login of yesterday; it is dropped there, and the plugin is run once more."""
    node = Node(tmp_path)
    with running(tmp_path / "registry") as registry:
        registry.set_users({"user": "new-word"})
        push(registry, "team/app", "v1", build(b"app"), basic("user", "new-word"))
        write_config(node.config, [provider_entry(matchImages=[registry.host])])
        node.recording(auth={registry.host: ("user", "old-word")})
        image = f"{registry.host}/team/app:v1"
        with agent_here(node) as agent:
            asking = ("--agent", agent.socket, *plain_pod(tmp_path))
            assert run(node, "can-pull", image, *asking).returncode == 5
            node.recording(auth={registry.host: ("user", "new-word")})
            done = run(node, "pull", image, *asking, "--to", str(tmp_path / "layout"), "-o", "json")
            assert run(node, "can-pull", image, *asking).returncode == 0
            assert agent.status["providers"][0]["runs"] == 2
    (item,) = json.loads(done.stdout)["items"]
    assert [(each["worked"], each["renewed"]) for each in item["attempts"]] == [(False, False), (True, True)]
    assert len(node.runs()) == 2


def test_a_plugin_that_fails_is_run_once_there_and_once_here(agent: Agent) -> None:
    """Once in the agent, since nobody knows before; once here, for its own error and exit code."""
    agent.node.recording(before="echo no luck >&2; exit 3")
    done = run(agent.node, "get", IMAGE, "--agent", agent.socket)
    assert (done.returncode, "no luck" in done.stderr) == (4, True)
    assert len(agent.node.runs()) == 2
