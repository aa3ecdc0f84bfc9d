"""The agent's log has its own lines alone, tells of plugins that fail, and who looks at the agent counts as nobody."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from support.agents import RunningAgent, running_agent
from support.commands import run_keyferry
from support.page import log_in
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, provider_entry, wait_until, write_config

SECRET = "hunter2-word"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.recording()
    made.shell(f'echo "denied: password={SECRET}" >&2; exit 1', "failing")
    failing = provider_entry("failing", matchImages=["failing.example"])
    write_config(made.config, [provider_entry(), failing])
    return made


def events(agent: RunningAgent) -> list[dict[str, object]]:
    """Return the whole log; every line of it is JSON."""
    return [json.loads(line) for line in agent.log.splitlines()]


def test_a_client_that_leaves_early_writes_no_line_of_asyncio(node: Node) -> None:
    with running_agent(node, "--log-format", "json") as agent:
        before = len(events(agent))
        for _ in range(10):
            client = socket.socket(socket.AF_UNIX)
            client.connect(agent.socket)
            client.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n" * 500)
            client.close()
        agent.look_up(IMAGE)
        agent.stop()
        assert {str(each["event"]) for each in events(agent)[before:]} == {"stopping", "stopped"}


def failures(agent: RunningAgent) -> list[dict[str, object]]:
    return [each for each in events(agent) if each["event"] == "a provider failed"]


def number(found: list[dict[str, object]]) -> int:
    """Return how many failures lines stand for."""
    return len(found) + sum(int(str(each.get("left_out", 0))) for each in found)


def test_a_plugin_that_fails_is_in_the_log(node: Node) -> None:
    """One line each, and of many in a second the last, with the number of those left out."""
    with running_agent(node, "--log-format", "json") as agent:
        for at in range(20):
            agent.look_up(f"failing.example/app-{at}")
        wait_until(lambda: number(failures(agent)) == 20, "the failures")
        first, *_, last = failures(agent)
        assert (first["level"], first["provider"]) == ("warning", "failing")
        assert "exited with status 1; stderr: denied: password=" in str(first["error"])
        assert first["image"] == "failing.example/app-0"
        assert last["image"] == "failing.example/app-19"
        assert SECRET not in agent.log


@pytest.mark.parametrize(
    "question",
    [
        pytest.param({"image": "failing.example/app", "provider": "failing"}, id="provider"),
        pytest.param({"registry": "failing.example"}, id="registry"),
    ],
)
def test_a_failure_is_in_the_log_whatever_was_asked(node: Node, question: dict[str, object]) -> None:
    with running_agent(node, "--log-format", "json") as agent:
        assert agent.ask("POST", "/v1/lookup", question, traceparent="its-trace").status == 200
        [found] = failures(agent)
        assert (found["provider"], found["id"], found["traceparent"]) == ("failing", 1, "its-trace")


def test_who_looks_at_the_agent_does_not_count(node: Node) -> None:
    """Neither as a caller nor in the metrics; 'agent status --watch' and a page look every second."""
    with running_agent(node, "--page", "127.0.0.1:0") as agent:
        agent.look_up(IMAGE)
        opened = log_in(agent)
        before = agent.status["callers"]
        for _ in range(3):
            assert run_keyferry("agent", "status", "--socket", agent.socket).returncode == 0
            agent.ask("GET", "/v1/metrics")
            agent.ask("GET", "/v1/health")
            opened.text("/callers")
        with opened.follow("/callers") as followed:
            next(followed)
        assert agent.status["callers"] == before
        # The lookup, and the two requests for a link's address and for the link.
        counted = agent.ask("GET", "/v1/metrics").body.decode()
        assert 'keyferry_agent_requests_total{status="200"} 2.0\n' in counted
        assert before[0]["requests"] == 2


SECRETS = ("argument-word", "bare-word-7", "dXNlcjpwYXNz", "url-word")
ARGUMENTS = [
    *(
        "--pwd",
        SECRETS[1],
        f"--auth=jo:{SECRETS[1]}",
        "--password",
        SECRETS[1],
        f"--token={SECRETS[0]}",
        "--region",
        "eu-west-1",
    ),
    f"https://user:{SECRETS[3]}@auth.example/login",
    f"eyJhbGciOiJub25lIn0.{SECRETS[2]}.c2lnbmF0dXJl",
]


def test_no_secret_of_a_plugins_arguments_is_shown(tmp_path: Path) -> None:
    """Not by the status, not by a failure that quotes it, not on the page, not in the log."""
    node = Node(tmp_path)
    node.shell('echo "no such user: $2, $6" >&2; exit 1')
    write_config(
        node.config, [provider_entry(args=ARGUMENTS, matchImages=[f"user:{SECRETS[3]}@x.io", REGISTRY])]
    )
    with running_agent(node, "--page", "127.0.0.1:0", "--log-level", "debug") as agent:
        told = [agent.look_up(IMAGE).body.decode(), agent.look_up(IMAGE, provider=PLUGIN).body.decode()]
        plugin = agent.status["providers"][0]["plugin"]
        assert plugin["args"][6:8] == ["--region", "eu-west-1"]
        told.append(agent.ask("GET", "/v1/status").body.decode())
        told.append(agent.ask("GET", "/v1/metrics").body.decode())
        status = ("agent", "status", "--socket", agent.socket, "-o")
        told += [run_keyferry(*status, output).stdout for output in ("table", "json", "yaml")]
        opened = log_in(agent)
        told += [opened.text(view) for view in ("/", f"/providers/{PLUGIN}", f"/explain?image={IMAGE}")]
        places = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
        told.append(run_keyferry("agent", "config", *places, "-o", "json").stdout)
        told.append(agent.log)
    assert "no such user" in told[0]
    for secret in SECRETS:
        assert [text for text in told if secret in text] == []
