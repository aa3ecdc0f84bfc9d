"""When a config counts as changed, and what is done about one that never stops changing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from keyferry.agent.log import AgentLog
from keyferry.agent.settings import Given
from keyferry.agent.state import AgentState, Reloader, fingerprint, load_state
from keyferry.errors import ConfigError, EnvironmentProblem
from support.plugins import Node, provider_entry, write_config
from support.scripted import cache_hits


def test_a_folder_changes_with_its_configs_and_not_with_what_else_is_in_it(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("a")
    before = fingerprint((str(tmp_path),))
    (tmp_path / "a.yaml~").write_text("an editor's backup")
    assert fingerprint((str(tmp_path),)) == before
    config.write_text("other")
    assert fingerprint((str(tmp_path),)) != before


def test_a_config_that_changes_while_it_is_read_is_not_put_in_force(node: Node) -> None:
    """Neither half of it: not even at the start."""
    node.recording()
    write_config(node.config, [provider_entry()])
    changes = iter(range(1, 1000))

    def load(*given: object) -> AgentState:
        state = load_state(*given)  # type: ignore[arg-type] # handed on as it came
        os.utime(node.config, (next(changes), next(changes)))
        return state

    given = Given(
        flags={"providerConfig": str(node.config), "binDir": str(node.bin_dir)}, config_file="", environ={}
    )
    with pytest.raises(EnvironmentProblem, match="changes again and again while it is read"):
        Reloader(given, AgentLog(), load=load)


def test_a_file_that_changed_a_moment_ago_is_left_to_come_to_rest(node: Node) -> None:
    """A second change in the same moment would leave the same times behind, and would not be noticed."""
    node.recording()
    write_config(node.config, [provider_entry()])
    ages_ns: list[int] = []

    def load(*given: object) -> AgentState:
        ages_ns.append(time.time_ns() - node.config.stat().st_ctime_ns)
        state = load_state(*given)  # type: ignore[arg-type] # handed on as it came
        if len(ages_ns) == 1:
            node.config.touch()
        return state

    given = Given(
        flags={"providerConfig": str(node.config), "binDir": str(node.bin_dir)}, config_file="", environ={}
    )
    Reloader(given, AgentLog(), load=load)
    # The first look only finds out which files there are.
    assert len(ages_ns) == 2
    assert ages_ns[1] >= 20_000_000


def test_an_outcome_says_since_when_loads_end_like_it(node: Node) -> None:
    """The first refusal in a row counts, also after more of them than are remembered."""
    node.recording()
    write_config(node.config, [provider_entry()])
    given = Given(
        flags={"providerConfig": str(node.config), "binDir": str(node.bin_dir)}, config_file="", environ={}
    )
    results: list[ConfigError | None] = [None, None, *([ConfigError(())] * 60), None, None]

    def load(*given: object) -> AgentState:
        if error := results[0]:
            raise error
        return load_state(*given)  # type: ignore[arg-type] # handed on as it came

    reloader = Reloader(given, AgentLog(), load=load)
    found = [reloader.last]
    while len(results) > 1:
        del results[0]
        found.append(reloader.load())
    assert {each.since for each in found[:2]} == {found[0].at}
    assert {each.since for each in found[2:62]} == {found[2].at}
    assert {each.since for each in found[62:]} == {found[62].at}
    assert len(reloader.history) == 50


def test_hits_never_seem_to_fall_while_a_new_config_takes_over(node: Node) -> None:
    """Those before the change count, and those of lookups that go on with the old state after it."""
    node.recording("Registry")
    write_config(node.config, [provider_entry()])
    given = Given(
        flags={"providerConfig": str(node.config), "binDir": str(node.bin_dir)}, config_file="", environ={}
    )
    seen: list[dict[str, int]] = []

    class Watched(Reloader):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "state" and seen:
                for _ in range(2):
                    before.lookup("registry.example/late")
                seen.append(cache_hits(self.state.providers))

    reloader = Watched(given, AgentLog())
    before = reloader.state.providers
    for _ in range(4):
        before.lookup("registry.example/late")
    seen.append(cache_hits(before))
    assert reloader.load().is_applied
    seen.append(cache_hits(reloader.state.providers))
    assert [list(each.values()) for each in seen] == [[3], [5], [5]]
