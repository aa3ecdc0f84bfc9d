"""Situations that a real kubelet was seen in, asked from another machine: through the agent's pod, and a debug pod.

Both say the same of what both see. The caller runs in this process, the commands in the node's pods are real processes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.account_world import AUDIENCE
from support.far_node import FarNode, leave_node
from support.known_situations import SITUATIONS
from support.kubelets import Processes
from support.pod_world import PodWorld
from support.schemas import check_document
from support.situations import Situation, add_provider, explain_pod, situation_here

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

Json = dict[str, Any]
DEBUG = "--debug-image registry.example/keyferry:1"
AGENT = ("", "pods", "kube-system", "keyferry-abcde")
DOCKER_CONFIG, IMAGE, START = "docker config", "the image and its record", "the kubelet's start"
# Each world once; the registry is not asked from here.
NAMES = {found.make: name for name, found in reversed(SITUATIONS.items())}.values()
# Where a verdict, a cause or a cure rests on something that the agent's pod does not see, what that is.
UNSEEN_BY_THE_AGENT = {
    "recorded-for-another-secret": DOCKER_CONFIG,
    "nothing-is-configured": DOCKER_CONFIG,
    "recorded-for-another-secret-and-never-pulled": IMAGE,
    "absent-and-never-pulled": IMAGE,
    "preloaded-and-always-verified": IMAGE,
    "preloaded-and-always-verified-and-never-pulled": IMAGE,
    # The kubelet has no flags for the config that the agent has.
    "fields-that-kubernetes-does-not-have": START,
    "config-changed-after-the-kubelets-start": START,
}
# What two runs of a plugin differ in.
TIMES = ("seconds", "expiresInSeconds")


@dataclass(frozen=True)
class Halves:
    """What is said of the pod's image with the help of the agent's pod, and with that of a debug pod."""

    agent: Json
    debug_pod: Json
    node: FarNode


def ask_both(folder: Path, found: Situation) -> Halves:
    """Ask about one world from another machine; the clock stands still meanwhile."""

    def make(world: PodWorld) -> None:
        found.make(world)
        world.is_node = True  # it is the caller who is elsewhere
        if not world.node.config.exists():  # an agent has a config
            add_provider(world, "else.example", name="unrelated", auth="else.example")

    # The world sets the clock as well, and sets it back at its end.
    with situation_here(folder, make, found.then) as world, pytest.MonkeyPatch.context() as patch:
        node = leave_node(world)
        now = time.time()
        patch.setattr(time, "time", lambda: now)
        node.add_agent()
        agent = explain_pod(world, "--on-node")
        del world.api.objects[AGENT]
        debug_pod = explain_pod(world, f"--on-node {DEBUG}")
    return Halves(agent, debug_pod, node)


def facts_of(explanation: Json) -> Json:
    """Return what both pods see: files, the answers of plugins, patterns, keys, credentials and their order."""
    config = {name: explanation["config"][name] for name in ("path", "binDir", "pullSecrets")}
    reasons = [
        {
            **{name: each[name] for name in ("stage", "subject", "outcome")},
            "facts": {name: fact for name, fact in each["facts"].items() if name not in TIMES},
        }
        for each in explanation["reasons"]
    ]
    # The agent's pod does not see the kubelet, nor when its files changed.
    evidence = {name: explanation["evidence"][name] for name in ("lastAttempt", "states", "events")}
    names = ("name", "credentials", "failures", "traps", "provenance")
    told = {name: explanation[name] for name in names}
    return {**told, "evidence": evidence, "config": config, "reasons": reasons}


def told_of(explanation: Json) -> Json:
    """Return the verdict, the cause, and the cures with the same commands whoever is asked."""
    verdict = {
        **explanation["verdict"],
        "text": explanation["verdict"]["text"].removesuffix(" (from node 'node1')"),
    }
    cures = [
        (each["text"], [line.replace(f" {DEBUG}", "") for line in each["lines"]])
        for each in explanation["cure"]
        if "not seen by the node agent's pod" not in each["text"]
    ]
    return {"verdict": verdict, "cause": explanation["cause"], "cures": cures}


def test_a_token_that_was_given_stays_here(tmp_path: Path) -> None:
    """A provider that needs one is not run, since no token is sent; the answer names it, and what would tell."""
    token = tmp_path / "token"
    token.write_text("kf-marked-token\n")
    (tmp_path / "world").mkdir()
    permitted = SITUATIONS["node-may-not-request-tokens"].make

    def make(world: PodWorld) -> None:
        permitted(world)
        world.api.node_audiences = {AUDIENCE}

    with situation_here(tmp_path / "world", make) as world:
        node = leave_node(world)
        node.add_agent()
        for options in ("", "--request-token", f"--service-account-token {token}"):
            told = explain_pod(world, f"--on-node {options}")
            assert told["verdict"]["case"] == "unexplained"
            assert "provider 'acme-registry' gets it from the kubelet" in told["verdict"]["text"]
            assert "--request-token in place of --on-node" in told["cure"][0]["text"]
            assert "plugin try" in json.dumps(told["cure"])
        assert world.api.issued == []
    assert "kf-marked" not in str(node.commands)
    assert not (node.files.bin_dir / "acme-registry.runs").exists()


def test_a_debug_pod_that_sees_no_kubelet_says_that_the_config_is_not_known(tmp_path: Path) -> None:
    """As where processes are hidden: that it found none does not mean that the kubelet has none."""
    with situation_here(tmp_path, SITUATIONS["nothing-is-configured"].make) as world:
        node = leave_node(world)
        node.processes = str(Processes(tmp_path / "hidden"))
        told = explain_pod(world, f"--on-node {DEBUG}")
    assert told["node"]["seen"] == []
    assert {"provider config", DOCKER_CONFIG} <= set(told["node"]["notSeen"])
    assert [each["input"] for each in told["missing"]] == ["node"]
    assert told["cause"] == ""


@pytest.mark.parametrize("name", NAMES)
def test_both_pods_say_the_same_of_a_situation(name: str, tmp_path: Path) -> None:
    """A debug pod says what is said on the node itself; what the agent's pod does not see, its answer names."""
    found = SITUATIONS[name]
    halves = ask_both(tmp_path, found)
    agent, debug_pod = halves.agent, halves.debug_pod
    check_document(agent)
    check_document(debug_pod)
    if name == "secret-is-not-base64":
        # Its kubelet looks no further, so nobody is asked.
        assert (agent, halves.node.commands) == (debug_pod, [])
        assert "node" not in agent
        return
    assert [each["node"]["through"] for each in (agent, debug_pod)] == ["agent", "debug-pod"]
    unseen = UNSEEN_BY_THE_AGENT.get(name, "")
    if unseen != START:
        assert facts_of(agent) == facts_of(debug_pod)
    if unseen:
        assert told_of(agent) != told_of(debug_pod)
        assert unseen in agent["node"]["notSeen"]
        assert unseen in debug_pod["node"]["seen"]
    else:
        assert told_of(agent) == told_of(debug_pod)
    assert debug_pod["verdict"]["case"] == found.case
    for pattern in () if "--check-registry" in found.options else found.says:
        assert re.search(pattern, debug_pod["verdict"]["text"]), (pattern, debug_pod["verdict"])
