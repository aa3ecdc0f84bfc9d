"""The agent follows its configs while it serves; what is broken is reported, and the old config stays."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keyferry import ConfigError, EnvironmentProblem
from keyferry.agent.log import AgentLog
from keyferry.agent.settings import Given
from keyferry.agent.state import AgentState, Reloader, load_state
from support.agent_here import agent_here
from support.agents import Agent, running_agent
from support.commands import run_in_process
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, provider_entry, wait_until, write_config
from support.scripted import cache_hits

OTHER = "other.example/app"


def replace_config(node: Node, *entries: dict[str, object]) -> None:
    """Write a new config beside the old one and rename it into place, as careful tools do."""
    write_config(node.root / "new.json", entries).replace(node.config)


def second_provider(node: Node) -> dict[str, object]:
    node.recording(name="second", auth={"other.example": ("b", "b")})
    return provider_entry("second", matchImages=["other.example"])


def sources(agent: Agent, image: str) -> dict[str, str]:
    found = agent.look_up(image).document["sources"]
    assert isinstance(found, dict)
    return found


def test_a_replaced_file_is_loaded_and_unchanged_providers_keep_their_cache(node: Node) -> None:
    with agent_here(node) as agent:
        assert sources(agent, IMAGE) == {PLUGIN: "run"}
        replace_config(node, provider_entry(), second_provider(node))
        wait_until(lambda: sources(agent, OTHER) == {"second": "cache"}, "the second provider")
        assert sources(agent, IMAGE) == {PLUGIN: "cache"}
        assert len(node.runs()) == 1
        replace_config(node, second_provider(node))
        wait_until(lambda: sources(agent, IMAGE) == {}, "the first provider to be forgotten")
        assert sources(agent, OTHER) == {"second": "cache"}
        assert {each["provider"] for each in agent.status["refresh"]["next"]} == {"second"}


def test_hits_are_counted_on_after_a_reload(node: Node) -> None:
    """A counter that goes back looks to Prometheus like a restart."""
    with agent_here(node) as agent:
        for _ in range(21):
            agent.look_up(IMAGE)

        def hits() -> tuple[int, str]:
            [provider] = agent.status["providers"]
            figures = agent.ask("GET", "/v1/metrics").body.decode().splitlines()
            [line] = [each for each in figures if "provider_lookups_total" in each and 'result="hit"' in each]
            return provider["hits"], line.split()[-1]

        assert hits() == (20, "20.0")
        for _ in range(2):
            assert agent.ask("POST", "/v1/reload").status == 200
            assert hits() == (20, "20.0")
        agent.look_up(IMAGE)
        assert hits() == (21, "21.0")


def test_a_changed_provider_loses_its_cache(agent: Agent) -> None:
    assert sources(agent, IMAGE) == {PLUGIN: "run"}
    replace_config(agent.node, provider_entry(args=["--new"]))
    wait_until(lambda: agent.status["reload"]["succeeded"] == 1, "the reload")
    assert sources(agent, IMAGE) == {PLUGIN: "run"}


def test_a_broken_config_is_reported_and_the_old_one_stays(agent: Agent) -> None:
    good = agent.node.config.read_bytes()
    agent.node.config.write_bytes(good[: len(good) // 2])
    wait_until(lambda: agent.status["reload"]["applied"] is False, "the refusal")
    status = agent.status
    assert status["reload"]["problems"]
    assert sources(agent, IMAGE) == {PLUGIN: "run"}
    assert "keyferry_config_reload_success 0.0" in agent.ask("GET", "/metrics").body.decode()
    assert "the new config is refused" in agent.log
    # The same file is not read again and again.
    assert agent.status["reload"]["failed"] == status["reload"]["failed"] == 1
    done = run_in_process("agent", "reload", "--socket", agent.socket)
    assert done.returncode == 1
    assert str(agent.node.config) in done.stderr
    assert run_in_process("agent", "status", "--socket", agent.socket).returncode == 1
    agent.node.config.write_bytes(good)
    wait_until(lambda: agent.status["reload"]["applied"] is True, "the recovery")
    assert "keyferry_config_reload_success 1.0" in agent.ask("GET", "/metrics").body.decode()
    assert run_in_process("agent", "reload", "--socket", agent.socket).returncode == 0


def test_sighup_reloads_at_once(node: Node) -> None:
    with running_agent(node, "--watch", "false") as agent:
        replace_config(node, provider_entry(), second_provider(node))
        assert sources(agent, OTHER) == {}
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sources(agent, OTHER), "the second provider")


def test_a_folder_like_a_config_map_is_followed(node: Node, tmp_path: Path) -> None:
    """Kubernetes swaps the link ..data, so that all files change at once; backups in the folder are passed over."""
    folder = tmp_path / "providers"
    for name in ("one", "two"):
        (folder / f"..{name}").mkdir(parents=True)
    write_config(folder / "..one" / "config.json", [provider_entry()])
    write_config(folder / "..two" / "config.json", [provider_entry(), second_provider(node)])
    (folder / "..data").symlink_to("..one")
    (folder / "config.json").symlink_to("..data/config.json")
    with agent_here(node, "--config", str(folder)) as agent:
        for backup in ("config.json~", ".config.json.swp", "#config.json#"):
            (folder / backup).write_text("{broken")
        (folder / "..draft").symlink_to("..two")
        (folder / "..draft").rename(folder / "..data")
        wait_until(lambda: sources(agent, OTHER), "the second provider")
        status = agent.status["reload"]
        assert (status["succeeded"], status["failed"]) == (1, 0)


def test_the_agents_own_config_is_followed(node: Node, tmp_path: Path) -> None:
    """A new level or limit counts at once; a new socket is a note."""
    config = tmp_path / "agent.yaml"
    head = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
    config.write_text(head)
    with agent_here(node, "--agent-config", str(config)) as agent:
        config.write_text(f"{head}logLevel: debug\nsockt: /x\n")
        wait_until(lambda: agent.status["reload"]["applied"] is False, "the refusal")
        assert "sockt" in agent.status["reload"]["problems"][0]
        config.write_text(f"{head}logLevel: debug\nsocketMode: '0600'\npage: 127.0.0.1:0\nconnections: 20\n")
        wait_until(lambda: agent.status["reload"]["applied"] is True, "the reload")
        later = [f"{name}: the new value counts after a restart" for name in ("socketMode", "page")]
        assert agent.status["reload"]["notes"] == later
        assert agent.status["connections"]["most"] == 20
        agent.look_up(IMAGE)
        assert "/v1/lookup" in agent.log


def test_no_request_fails_during_reloads(node: Node) -> None:
    """Thirty reloads, every tenth one of a broken config, while clients ask without a pause."""
    with agent_here(node) as agent:
        agent.look_up(IMAGE)
        stop, statuses = threading.Event(), set[tuple[int, bool]]()

        def hammer() -> None:
            while not stop.is_set():
                reply = agent.look_up(IMAGE)
                statuses.add((reply.status, bool(reply.document["credentials"])))

        threads = [threading.Thread(target=hammer) for _ in range(3)]
        for each in threads:
            each.start()
        good, applied = node.config.read_bytes(), []
        for number in range(30):
            is_broken = number % 10 == 9
            draft = node.root / "draft.json"
            draft.write_bytes(b"{" if is_broken else good)
            draft.replace(node.config)
            reply = agent.ask("POST", "/v1/reload")
            applied.append(reply.document["applied"])
            assert reply.status == (422 if is_broken else 200)
        stop.set()
        for each in threads:
            each.join()
        assert applied.count(False) == 3
        assert statuses == {(200, True)}
        assert len(node.runs()) == 1


def test_a_config_that_is_swapped_while_it_is_read_is_never_half_loaded(node: Node, tmp_path: Path) -> None:
    """Two files that belong together are always seen together."""
    folder = tmp_path / "providers"
    folder.mkdir()
    node.recording(name="a1", auth={})
    node.recording(name="a2", auth={})
    for version in ("..v1", "..v2"):
        (folder / version).mkdir()
        number = version[-1]
        for part in ("a", "b"):
            entry = provider_entry(
                f"a{number}" if part == "a" else PLUGIN, matchImages=[f"{part}{number}.example"]
            )
            write_config(folder / version / f"{part}.json", [entry])
    (folder / "..data").symlink_to("..v1")
    for part in ("a", "b"):
        (folder / f"{part}.json").symlink_to(f"..data/{part}.json")
    with agent_here(node, "--config", str(folder)) as agent:
        stop = threading.Event()

        def swap() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                (folder / "..draft").symlink_to(f"..v{number % 2 + 1}")
                os.replace(folder / "..draft", folder / "..data")
                # Often within one reading, and now and then long enough for a reading between two changes.
                stop.wait(0.004 * (number % 9))

        swapping = threading.Thread(target=swap)
        swapping.start()
        for _ in range(30):
            agent.ask("POST", "/v1/reload")
            patterns = [each["matchImages"][0] for each in agent.status["providers"]]
            assert patterns in (["a1.example", "b1.example"], ["a2.example", "b2.example"])
        stop.set()
        swapping.join()


def test_status_and_config_show_what_is_in_force(agent: Agent) -> None:
    agent.look_up(IMAGE)
    shown = run_in_process("agent", "status", "--socket", agent.socket)
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("✓ All is well, for ")
    assert lines[4].split()[:4] == ["✓", PLUGIN, "well", "1"]
    assert "NEXT RENEWAL" in shown.stdout
    who = f"run as user {os.geteuid()} and group {os.getegid()}, in the agent's environment"
    assert f"{agent.node.bin_dir}, {who}" in " ".join(shown.stdout.split())
    assert "pass" not in shown.stdout
    document = json.loads(run_in_process("agent", "status", "--socket", agent.socket, "-o", "json").stdout)
    assert (document["apiVersion"], document["kind"]) == ("keyferry.dev/v1alpha1", "AgentStatus")
    plugin = document["providers"][0]["plugin"]
    assert (plugin["uid"], plugin["path"]) == (os.geteuid(), str(agent.node.bin_dir / PLUGIN))
    assert document["providers"][0]["matchImages"] == [REGISTRY]


def test_without_an_agent_the_commands_say_so(tmp_path: Path) -> None:
    for verb in ("status", "reload"):
        done = run_in_process("agent", verb, "--socket", str(tmp_path / "none.sock"))
        assert (done.returncode, done.stdout) == (3, "")
        assert "no agent listens here" in done.stderr
        assert f"start one with 'keyferry agent run --socket {tmp_path}/none.sock'" in done.stderr


@pytest.mark.parametrize("verb", ["status", "reload", "page"])
def test_a_variable_that_names_no_socket_is_wrong_usage(verb: str) -> None:
    done = run_in_process("agent", verb, KEYFERRY_AGENT="on")
    assert (done.returncode, done.stdout) == (2, "")
    assert "KEYFERRY_AGENT is 'on', expected 'off', 'auto' or the absolute path of a socket" in done.stderr


def test_the_socket_of_the_agents_config_is_asked(agent: Agent, tmp_path: Path) -> None:
    """Also if the config has a mistake elsewhere: the agent goes on with an older one."""
    config = tmp_path / "own.yaml"
    head = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
    config.write_text(f"{head}socket: {agent.socket}\nconnections: 0\n")
    for verb in ("status", "reload"):
        assert run_in_process("agent", verb, KEYFERRY_AGENT_CONFIG=str(config)).returncode == 0


def test_the_watched_status_outlives_the_agent(node: Node) -> None:
    """Through a pipe there are no control characters."""
    with agent_here(node) as agent:
        command = [sys.executable, "-m", "keyferry", "agent", "status", "--watch", "--socket", agent.socket]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        lines = [watching.stdout.readline()]
        assert "All is well" in lines[0]
    lines.append(next(line for line in watching.stdout if "no agent listens here" in line))
    with agent_here(node):
        lines.append(next(line for line in watching.stdout if "All is well" in line))
    watching.send_signal(signal.SIGINT)
    lines += watching.communicate()[0].splitlines()
    assert watching.returncode == 130
    assert "\x1b" not in "".join(lines)


def test_the_watched_status_lives_on_a_terminal(agent: Agent) -> None:
    """Every second in the same place, until it is interrupted."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "keyferry", "agent", "status", "--watch", "--socket", agent.socket]
    watching = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while shown.count(b"\x1b[H\x1b[J") < 2 or shown.count(b"PROVIDER") < 2:
        shown += os.read(ours, 65536)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 130
    os.close(ours)


def test_agent_config_prints_values_origins_and_rules(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    rules = "access:\n- uids: [1000]\n  registries: [registry.example]\nmanage:\n- gids: [27]\n"
    config.write_text(f"apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\ncacheEntries: 7\n{rules}")
    words = ["agent", "config", "--agent-config", str(config), "--config", "/c.json", "--bin-dir", "/b"]
    shown = run_in_process(*words, KEYFERRY_AGENT_LOG_LEVEL="warning")
    assert shown.returncode == 0
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["cacheEntries", "7", str(config)] in lines
    assert ["logLevel", "warning", "KEYFERRY_AGENT_LOG_LEVEL"] in lines
    assert ["providerConfig", "/c.json", "flag", "--config"] in lines
    assert ["uid:1000", "registry.example", "no"] in lines
    document = json.loads(run_in_process(*words, "-o", "json").stdout)
    assert document["manage"] == [{"uids": [], "gids": [27]}]
    config.write_text(config.read_text() + "sockt: x\n")
    refused = run_in_process(*words)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert f"{config}:9:1: sockt: unknown field" in refused.stderr


@pytest.fixture
def given(node: Node) -> Given:
    """What an agent of that node is given."""
    write_config(node.config, [provider_entry()])
    return Given(flags={"providerConfig": str(node.config), "binDir": str(node.bin_dir)})


Load = Callable[..., AgentState]


def loading(before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None) -> Load:
    """Return what loads a state, with something that happens before and after it."""

    def load(*given: Any) -> AgentState:
        before()
        state = load_state(*given)
        after()
        return state

    return load


def test_a_config_that_changes_while_it_is_read_is_not_put_in_force(node: Node, given: Given) -> None:
    """Neither half of it: not even at the start."""
    changes = count(1)
    load = loading(after=lambda: os.utime(node.config, (next(changes), next(changes))))
    with pytest.raises(EnvironmentProblem, match="changes again and again while it is read"):
        Reloader(given, AgentLog(), load=load)


def test_a_file_that_changed_a_moment_ago_is_left_to_come_to_rest(node: Node, given: Given) -> None:
    """A second change in the same moment would leave the same times behind, and would not be noticed."""
    ages_ns: list[int] = []

    def touch_once() -> None:
        if len(ages_ns) == 1:
            node.config.touch()

    def note_age() -> None:
        ages_ns.append(time.time_ns() - node.config.stat().st_ctime_ns)

    Reloader(given, AgentLog(), load=loading(note_age, touch_once))
    # The first look only finds out which files there are.
    assert len(ages_ns) == 2
    assert ages_ns[1] >= 20_000_000


def test_an_outcome_says_since_when_loads_end_like_it(given: Given) -> None:
    """The first refusal in a row counts, also after more of them than are remembered."""
    is_refused = False

    def refuse() -> None:
        if is_refused:
            raise ConfigError(())

    reloader = Reloader(given, AgentLog(), load=loading(before=refuse))
    found = [[reloader.last, reloader.load()]]
    for is_refused, number in ((True, 60), (False, 2)):  # noqa: B007 - refuse() reads it
        found.append([reloader.load() for _ in range(number)])
    assert all(each.since == group[0].at for group in found for each in group)
    assert len(reloader.history) == 50


def test_hits_never_seem_to_fall_when_a_new_config_takes_over(given: Given) -> None:
    """Those before the change count, and those of lookups that go on with the old state after it."""
    reloader = Reloader(given, AgentLog())
    before = reloader.state.providers
    seen = []
    for change in (lambda: None, reloader.load):
        change()
        for _ in range(4):
            before.lookup(IMAGE)
        seen.append(cache_hits(reloader.state.providers))
    assert seen == [{PLUGIN: 3}, {PLUGIN: 7}]
