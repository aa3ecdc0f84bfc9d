"""``keyferry doctor`` looks past a shim to its plugin, and tells whether the node agent answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from keyferry import __version__
from keyferry.bridge.kubelet_install import python_shim
from support.agents import running_agent
from support.doctor import DoctorNode, pick
from support.plugins import Node as PluginNode
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")


@pytest.fixture
def machine(tmp_path: Path) -> DoctorNode:
    """A machine with a shim in front of its only plugin."""
    made = DoctorNode(tmp_path)
    made.node.add("own", ["reg.invalid"])
    path = made.node.bin_dir / "own"
    (made.node.bin_dir / "own.real").hardlink_to(path)
    (made.node.bin_dir / "own.agent").symlink_to(tmp_path / "run" / "agent.sock")
    write_executable(path, python_shim())
    return made


def test_a_shim_and_its_agent(machine: DoctorNode) -> None:
    folder, options = machine.folder, machine.node.options()
    socket = f"{folder}/run/agent.sock"
    absent = machine.lines(*options)
    ((level, text),) = pick(absent, "plugins")
    assert (level, text.count("it is a shim")) == ("ok", 1)
    assert f"asks the node agent at {socket}; behind it, {folder}/bin/own.real belongs to " in text
    named = f"{socket} (named by the shim of own)"
    assert pick(absent, "node agent") == [("warning", f"{named} is not there; plugins are run without it")]
    with running_agent(PluginNode(folder), *options) as agent:
        assert pick(machine.lines(*options), "node agent") == [("ok", f"{named} is there; --online asks it")]
        online = machine.lines(*options, "--online", "--registry-timeout", "5")
        assert pick(online, "node agent") == [("ok", f"{named} answers: version {__version__}")]
        other = folder / "other.json"
        other.write_text(
            json.dumps({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"})
        )
        words = ("--config", str(other), *options[2:], "--online", "--registry-timeout", "5")
        lines = machine.lines(*words, KEYFERRY_AGENT=socket)
        assert [level for level, _ in pick(lines, "node agent")] == ["ok", "warning"]
        agent.process.kill()
        agent.process.wait()
    dead = machine.lines(*options, "--online", "--registry-timeout", "5")
    assert "gives no answer, and plugins are run without it" in pick(dead, "node agent")[0][1]


def test_a_shim_that_asks_in_the_usual_place(machine: DoctorNode) -> None:
    """An installer writes ``auto`` unless it is told a socket; the kubelet, which executes the shim, is root."""
    link = machine.node.bin_dir / "own.agent"
    link.unlink()
    link.symlink_to("auto")
    lines = machine.lines(*machine.node.options(), KEYFERRY_AGENT="")
    assert "asks the node agent at /run/keyferry/agent.sock; " in pick(lines, "plugins")[0][1]
    ((_, text),) = pick(lines, "node agent")
    assert text.startswith("/run/keyferry/agent.sock (named by the shim of own) ")


def test_a_machine_without_an_agent_has_no_line_about_one(tmp_path: Path) -> None:
    made = DoctorNode(tmp_path)
    made.node.add("own", ["reg.invalid"])
    assert pick(made.lines(*made.node.options(), KEYFERRY_AGENT=""), "node agent") == []


def test_a_provider_that_fails_in_the_agent_is_named_with_its_reason(tmp_path: Path) -> None:
    made = DoctorNode(tmp_path)
    made.node.add("failing", ["reg.invalid"], before="echo 'no role for this node' >&2; exit 3")
    options = made.node.options()
    with running_agent(PluginNode(tmp_path), *options) as agent:
        agent.look_up("reg.invalid/app")
        words = (*options, "--online", "--registry-timeout", "5")
        lines = made.lines(*words, KEYFERRY_AGENT=str(tmp_path / "run" / "agent.sock"))
    _, (level, text) = pick(lines, "node agent")
    assert level == "warning"
    assert text.startswith("its provider failing last failed at 20")
    assert "no role for this node" in text
