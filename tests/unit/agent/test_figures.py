"""The agent's figures are what its parts have counted, for the providers in force."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from keyferry.agent.connection import ConnectionTable
from keyferry.agent.figures import render_figures
from keyferry.agent.journal import Usage
from keyferry.agent.log import AgentLog
from keyferry.agent.refresh import PlannedRefresh, Refresher
from keyferry.agent.settings import Given
from keyferry.agent.state import Reloader
from support.plugins import PLUGIN, Node, print_answer, provider_entry, write_config

SECOND = 1_000_000_000


class _Parts:
    """What the process puts together."""

    def __init__(self, node: Node) -> None:
        log = AgentLog(stream=io.StringIO())
        write_config(node.config, [provider_entry()])
        places = {"providerConfig": str(node.config), "binDir": str(node.bin_dir)}
        self.refresher = Refresher(log, 1 << 60, random_number=lambda: 0.0)
        self.reloader = Reloader(Given(flags=places), log)
        self.usage = Usage()
        self.connections = ConnectionTable(8, lambda: 0.0)

    def samples(self) -> dict[str, float]:
        text = render_figures(self.reloader, self.refresher, self.usage, self.connections).decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


@pytest.fixture
def parts(tmp_path: Path) -> _Parts:
    node = Node(tmp_path)
    node.shell(print_answer())
    return _Parts(node)


def test_refusals_are_told_apart(parts: _Parts) -> None:
    """By their reason; a request that is only in vain is none."""
    for status, times in ((200, 9), (404, 8), (503, 7), (403, 3), (429, 2), (400, 1)):
        for _ in range(times):
            parts.usage.count(1000, status, 1.0)
    parts.usage.too_many_lookups = 9
    parts.connections.refused, parts.connections.malformed, parts.connections.too_slow = 4, 5, 6
    found = {
        name.split('"')[1]: value
        for name, value in parts.samples().items()
        if name.startswith("keyferry_agent_clients_refused_total")
    }
    assert found == {
        "forbidden": 3,
        "malformed": 6,
        "too-many-connections": 4,
        "too-many-evictions": 2,
        "too-many-lookups": 9,
        "too-slow": 6,
    }


def test_renewals_are_counted_and_planned_by_provider(parts: _Parts) -> None:
    """A provider that is gone has no figures, and an unused one has zeros."""
    parts.refresher.outcomes = {(PLUGIN, False): 2, ("gone", True): 9}
    plan = parts.refresher.plan
    plan.note(PlannedRefresh(provider=PLUGIN, base="b", image="b"), 200 * SECOND, 0)
    plan.note(PlannedRefresh(provider=PLUGIN, base="a", image="a"), 100 * SECOND, 0)
    plan.note(PlannedRefresh(provider="gone", base="c", image="c"), 100 * SECOND, 0)
    found = parts.samples()
    assert found[f'keyferry_agent_refreshes_total{{plugin_name="{PLUGIN}",result="failure"}}'] == 2
    assert found[f'keyferry_agent_refreshes_total{{plugin_name="{PLUGIN}",result="success"}}'] == 0
    assert found[f'keyferry_agent_planned_refreshes{{plugin_name="{PLUGIN}"}}'] == 2
    following = found[f'keyferry_agent_next_refresh_timestamp_seconds{{plugin_name="{PLUGIN}"}}']
    assert following == pytest.approx(time.time() - time.monotonic() + 50, abs=2)
    assert not any("gone" in name for name in found)


def test_a_refused_config_is_shown_until_it_is_corrected(parts: _Parts, tmp_path: Path) -> None:
    assert parts.samples()["keyferry_config_reload_success"] == 1
    node = Node(tmp_path)
    good = node.config.read_bytes()
    node.config.write_text("{")
    parts.reloader.load()
    assert parts.samples()["keyferry_config_reload_success"] == 0
    node.config.write_bytes(good)
    parts.reloader.load()
    found = parts.samples()
    assert found["keyferry_config_reload_success"] == 1
    assert found['keyferry_config_reloads_total{result="failure"}'] == 1
    assert found['keyferry_config_reloads_total{result="success"}'] == 1
