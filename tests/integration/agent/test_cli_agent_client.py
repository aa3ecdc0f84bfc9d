"""The commands about images ask the node agent, with the same results, and tell where each answer is from."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents import RunningAgent, counting_node, running_agent
from support.commands import plain_pod, run_keyferry
from support.images import build, push
from support.plugins import IMAGE, REGISTRY, Node, print_answer, provider_entry, write_config
from support.registry import basic, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
SECRET = "hidden-9f31"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return counting_node(tmp_path, SECRET)


@pytest.fixture
def agent(node: Node) -> Iterator[RunningAgent]:
    """An agent of that node."""
    with running_agent(node) as running:
        yield running


def run(node: Node, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    options = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    return run_keyferry(*words, *options, cwd=None, KEYFERRY_PROC=str(node.root), **env)


def provider_reason(text: str) -> dict[str, object]:
    reasons = json.loads(text)["reasons"]
    return next(each for each in reasons if each["stage"] == "provider")


FORMATS = (("table",), *((each, "--reveal") for each in ("table", "json", "yaml", "dockerconfig", "env")))


def test_get_prints_the_same_with_and_without_the_agent(agent: RunningAgent) -> None:
    """Also the notes on standard error."""
    for output in FORMATS:
        words = ("get", f"{IMAGE}:v1", "-o", *output, "--agent")
        asked, alone = (run(agent.node, *words, place) for place in (agent.socket, "off"))
        assert (asked.returncode, asked.stdout, asked.stderr) == (0, alone.stdout, alone.stderr)
    # One run in the agent, and one for each command without it.
    assert len(agent.node.runs()) == 1 + len(FORMATS)


def test_get_wide_tells_who_had_it(agent: RunningAgent) -> None:
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


def test_explain_tells_where_each_answer_is_from(agent: RunningAgent) -> None:
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


def test_an_option_is_stronger_than_the_environment(agent: RunningAgent) -> None:
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
def test_an_environment_that_is_given_is_not_the_agents(agent: RunningAgent, option: tuple[str, ...]) -> None:
    done = run(agent.node, "explain", IMAGE, "-o", "json", *option, "--agent", agent.socket)
    assert f"not used: {option[0]} is given" in str(provider_reason(done.stdout)["text"])
    assert agent.status["providers"][0]["runs"] == 0


def test_a_config_that_is_given_is_never_answered_from_another_one(
    agent: RunningAgent, tmp_path: Path
) -> None:
    other = Node(tmp_path / "other")
    other.root.mkdir()
    other.recording(auth={REGISTRY: ("other", "word")})
    write_config(other.config, [provider_entry()])
    for words in (("get", IMAGE, "-o", "json"), ("explain", IMAGE, "-o", "json")):
        done = run(other, *words, "--agent", agent.socket)
        assert done.returncode == 0
        assert '"user"' not in done.stdout
    assert "the agent has another provider config, or another bin dir" in done.stdout
    assert agent.node.runs() == []


def test_ten_commands_at_once_cause_one_run(node: Node) -> None:
    node.recording(auth={REGISTRY: ("user", SECRET)}, before="sleep 1")
    with running_agent(node) as agent:
        options = ("--config", str(node.config), "--bin-dir", str(node.bin_dir), "--agent", agent.socket)
        command = [sys.executable, "-m", "keyferry", "get", IMAGE, "-o", "env", "--reveal", *options]
        asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(10)]
        assert all(f"REGISTRY_PASSWORD={SECRET}" in each.communicate()[0] for each in asking)
    assert len(node.runs()) == 1


def test_an_agent_that_hangs_delays_a_command_once(agent: RunningAgent) -> None:
    """The time limit of plugins is its too; then the plugin is run here, and a hint does not mention the agent."""
    agent.process.send_signal(signal.SIGSTOP)
    try:
        done = run(agent.node, "get", IMAGE, "-v", "--timeout", "2", "--agent", agent.socket)
        assert done.stderr.count("the agent did not answer in time") == 1
        assert (done.returncode, "user" in done.stdout) == (0, True)
        agent.node.shell(print_answer(auth={}))
        none = run(agent.node, "get", IMAGE, "--timeout", "2", "--agent", agent.socket)
    finally:
        agent.process.send_signal(signal.SIGCONT)
    assert none.returncode == 6
    assert f"--agent {agent.socket}" in none.stderr
    assert "--agent off" not in none.stderr


@pytest.mark.parametrize("word", ["on", "agent.sock", ""])
def test_another_word_for_an_agent_is_wrong_usage(node: Node, word: str) -> None:
    done = run(node, "get", IMAGE, f"--agent={word}")
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
        with running_agent(node) as agent:
            asking = ("--agent", agent.socket, *plain_pod(tmp_path))
            assert run(node, "can-pull", image, *asking).returncode == 5
            node.recording(auth={registry.host: ("user", "new-word")})
            done = run(node, "pull", image, *asking, "--to", str(tmp_path / "layout"), "-o", "json")
            assert run(node, "can-pull", image, *asking).returncode == 0
            assert agent.status["providers"][0]["runs"] == 2
    (item,) = json.loads(done.stdout)["items"]
    assert [(each["worked"], each["renewed"]) for each in item["attempts"]] == [(False, False), (True, True)]
    assert len(node.runs()) == 2


def test_a_plugin_that_fails_is_run_once_there_and_once_here(agent: RunningAgent) -> None:
    """Once in the agent, since nobody knows before; once here, for its own error and exit code."""
    agent.node.recording(before="echo no luck >&2; exit 3")
    done = run(agent.node, "get", IMAGE, "--agent", agent.socket)
    assert (done.returncode, "no luck" in done.stderr) == (4, True)
    assert len(agent.node.runs()) == 2
