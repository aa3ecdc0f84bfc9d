"""``-v`` logs on standard error what is done; the result is the same, and no line has a secret."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.agents import running_agent
from support.commands import Node, plain_pod, run_keyferry
from support.images import build, push
from support.plugins import Node as PluginNode
from support.registry import basic, running

SECRET = "pass-word"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one provider."""
    return Node(tmp_path).add("own", ["reg.io"])


def test_the_lines_tell_what_is_done_and_how_long_it_takes(node: Node) -> None:
    words = ("get", "reg.io/team/app", "--reveal", *node.options(), *plain_pod(node.folder))
    plain, told = run_keyferry(*words), run_keyferry(*words, "-v")
    assert (plain.stdout, plain.returncode) == (told.stdout, told.returncode)
    assert SECRET in told.stdout
    lines = [line for line in told.stderr.splitlines() if line not in plain.stderr.splitlines()]
    assert all(line.startswith("keyferry: ") and " ms: images: " in line for line in lines)
    said = "\n".join(lines)
    assert f"config {node.config} (given), bin dir {node.bin_dir} (given)" in said
    assert f"the config {node.config} has the providers own" in said
    assert "reg.io/team/app: 1 provider matches" in said
    assert "reg.io/team/app: plugin own ran for " in said
    assert SECRET not in told.stderr


def test_a_plugin_that_fails_is_told_without_its_words(tmp_path: Path) -> None:
    node = Node(tmp_path).add("own", ["reg.io"], before=f"echo {SECRET} | tee /dev/stderr; exit 3")
    done = run_keyferry("explain", "reg.io/app", "--verbose", *node.options())
    lines = [line for line in done.stderr.splitlines() if " ms: " in line]
    assert any("plugin own failed: exit" in line for line in lines)
    assert not any(SECRET in line for line in lines)


@pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
def test_the_agent_is_told_or_why_it_is_not_used(node: Node) -> None:
    words = ("get", "reg.io/team/app", *node.options(), "-v", "--agent")
    with running_agent(PluginNode(node.folder), *node.options()) as agent:
        by_agent = run_keyferry(*words, agent.socket)
        with_pod = run_keyferry(*words, agent.socket, *plain_pod(node.folder))
    alone = run_keyferry(*words, agent.socket)
    assert " ms: agent: reg.io/team/app: provider own: ran in the agent" in by_agent.stderr
    assert " ms: agent: reg.io/team/app: provider own: cached in the agent" in with_pod.stderr
    assert " ms: agent: not used: the agent at" in alone.stderr
    assert SECRET not in by_agent.stderr + with_pod.stderr + alone.stderr


def test_requests_to_a_registry_are_told_without_tokens(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with running(tmp_path / "registry") as registry:
        registry.set_users({"user": SECRET})
        push(registry, "team/app", "v1", build(b"app"), basic("user", SECRET))
        login = json.dumps({registry.host: {"username": "user", "password": SECRET}})
        node.add("own", [registry.host], login)
        image = f"{registry.host}/team/app:v1"
        done = run_keyferry("can-pull", image, "-v", *node.options(), *plain_pod(tmp_path))
    assert done.returncode == 0
    assert " ms: registry: HEAD 127.0.0.1: status 401" in done.stderr
    assert " ms: registry: HEAD 127.0.0.1: status 200" in done.stderr
    assert SECRET not in done.stderr
    assert basic("user", SECRET).split()[1] not in done.stderr


def test_a_line_cannot_harm_a_terminal(tmp_path: Path) -> None:
    """Nor begin another one: names of files come from elsewhere."""
    folder = tmp_path / "\x1b[2J\nkeyferry: forged"
    folder.mkdir()
    done = run_keyferry("get", "reg.io/app", "-v", *Node(folder).add("own", ["reg.io"]).options())
    assert "\x1b" not in done.stderr
    assert "\nkeyferry: forged" not in done.stderr
