"""The figures of a real agent are what Prometheus wants, what the docs list, and what alerts and dashboard use."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.agents import RunningAgent, running_agent
from support.parts import need
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    print_answer,
    provider_entry,
    wait_until,
    write_config,
)

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "keyferry.rules.yaml"
RULE_TESTS = ROOT / "deploy" / "prometheus" / "keyferry.rules.test.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "keyferry.json"
BROKEN = "broken"
# Words of expressions that are no metrics: what Prometheus itself adds, and its functions, operators and labels.
NO_METRICS = {"up"}


def port_of(agent: RunningAgent) -> str:
    found = re.search(r" metrics=(\S+)", agent.log)
    assert found is not None, agent.log
    return found[1]


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as response:
        text: str = response.read().decode()
    return text


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent that was used: hits, runs, failures, refusals, a bad reload, a credential that is cached."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.shell(print_answer())
    node.shell("exit 3", BROKEN)
    entries = [provider_entry(), provider_entry(BROKEN, matchImages=[f"{REGISTRY}/broken"])]
    write_config(node.config, entries)
    with running_agent(node, "--metrics", "127.0.0.1:0", "--watch", "false") as running:
        for image in (IMAGE, IMAGE, f"{REGISTRY}/broken/app"):
            running.look_up(image)
        running.look_up("")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(running.socket)
            client.sendall(b"no request\r\n\r\n")
            client.recv(1)
        node.config.write_text("{")
        running.ask("POST", "/v1/reload")
        yield running


@pytest.fixture(scope="module")
def exposed(agent: RunningAgent) -> str:
    """Its figures."""
    return scrape(port_of(agent))


def samples(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def types(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE))


def test_promtool_finds_nothing_wrong(exposed: str) -> None:
    """Names, units, suffixes and help texts, after use and after failures."""
    done = subprocess.run(
        [need("promtool"), "check", "metrics"], input=exposed, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_figures_are_what_happened(agent: RunningAgent, exposed: str) -> None:
    found = samples(exposed)
    assert found[f'keyferry_plugin_failures_total{{cause="exit",plugin_name="{BROKEN}"}}'] == 1
    assert found[f'kubelet_credential_provider_plugin_errors_total{{plugin_name="{BROKEN}"}}'] == 1
    assert found[f'keyferry_plugin_runs_total{{plugin_name="{PLUGIN}"}}'] == 1
    assert found[f'keyferry_provider_lookups_total{{plugin_name="{PLUGIN}",result="hit"}}'] == 2
    assert found[f'keyferry_agent_planned_refreshes{{plugin_name="{PLUGIN}"}}'] == 1
    assert found['keyferry_agent_clients_refused_total{reason="malformed"}'] == 2
    assert found["keyferry_config_reload_success"] == 0
    assert found['keyferry_config_reloads_total{result="failure"}'] == 1
    started = found["process_start_time_seconds"]
    expires = found[f'keyferry_credential_expiry_timestamp_seconds{{plugin_name="{PLUGIN}"}}']
    renewed = found[f'keyferry_agent_next_refresh_timestamp_seconds{{plugin_name="{PLUGIN}"}}']
    assert started + 300 <= renewed + 1
    assert renewed < expires < started + 600 + 60
    assert f'keyferry_credential_expiry_timestamp_seconds{{plugin_name="{BROKEN}"}}' not in found
    assert agent.ask("GET", "/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_the_socket_has_the_same_figures(agent: RunningAgent, exposed: str) -> None:
    assert types(agent.ask("GET", "/metrics").body.decode()) == types(exposed)


def test_the_command_of_the_page_prints_the_figures(agent: RunningAgent, exposed: str) -> None:
    (command,) = re.findall(r"^```sh\n(.*)\n```", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    program, *words = shlex.split(command.replace("/run/keyferry/agent.sock", agent.socket))
    done = subprocess.run([need(program), "-s", *words], capture_output=True, text=True, check=True)
    assert types(done.stdout) == types(exposed)


def test_no_image_is_in_them(exposed: str) -> None:
    assert REGISTRY not in exposed


def test_the_docs_list_every_metric(exposed: str) -> None:
    """With its type and its labels."""
    part = PAGE.read_text(encoding="utf-8").partition("## The agent's metrics\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in part.splitlines() if row.startswith("| `")
    ]
    assert {row[0].strip("`"): row[1] for row in rows} == types(exposed)
    for name, _, labels, *_ in rows:
        plain = name.strip("`")
        shown = re.findall(rf"^{plain}(?:_bucket)?\{{(.*)\}} ", exposed, re.MULTILINE)
        if shown:
            found = set(re.findall(r'(\w+)="', shown[0])) - {"le"}
            assert found == set(re.findall(r"`(\w+)`", labels)), plain


def test_the_port_has_no_more_than_figures_and_health(agent: RunningAgent) -> None:
    address = port_of(agent)
    for path in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=20) as response:
            assert response.read() == b"ok\n"
    for path in ("v1/status", "v1/lookup", "v1/handover"):
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(f"http://{address}/{path}", timeout=20)
        caught.value.close()  # the error is the answer, too


def test_silent_clients_do_not_take_the_place_of_a_scraper_that_has_asked(tmp_path: Path) -> None:
    """Nobody knows who is who on this port; the agent is busy until all have connected."""
    node = Node(tmp_path)
    node.shell(print_answer())
    write_config(node.config, [provider_entry()])
    with running_agent(node, "--metrics", "127.0.0.1:0") as agent, ExitStack() as clients:
        host, _, port = port_of(agent).rpartition(":")

        def connect() -> socket.socket:
            return clients.enter_context(socket.create_connection((host, int(port)), timeout=20))

        agent.process.send_signal(signal.SIGSTOP)
        scraper = connect()
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for _ in range(40):
            connect()
        agent.process.send_signal(signal.SIGCONT)
        assert scraper.recv(12) == b"HTTP/1.1 200"


def test_an_upgrade_takes_the_port_along(tmp_path: Path) -> None:
    """The new agent listens at the same port at once; the old one leaves it, and answers readyz until then."""
    node = Node(tmp_path)
    node.shell(print_answer())
    with running_agent(node, "--metrics", "127.0.0.1:0") as old:
        address = port_of(old)
        with running_agent(node, "--metrics", address) as new:
            wait_until(lambda: "another process has the socket" in old.log, "the old agent to notice")
            pids = {samples(scrape(address))["process_start_time_seconds"] for _ in range(8)}
            assert len(pids) == 1
            assert old.stop() == 0
            assert new.stop() == 0


def test_an_agent_whose_port_is_taken_leaves_the_socket_alone(tmp_path: Path) -> None:
    """It does not start, and an agent that is there keeps its place."""
    node = Node(tmp_path)
    node.shell(print_answer())
    with running_agent(node) as first, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        second = RunningAgent(node, "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
        assert second.process.wait(20) != 0
        assert "metrics: cannot listen at 127.0.0.1:" in second.log
        assert first.look_up(IMAGE).status == 200


def test_an_agent_with_another_socket_does_not_share_the_port(tmp_path: Path) -> None:
    """Scrapes would reach now the one and now the other; neither is the successor of the other."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    nodes = [Node(tmp_path / "first"), Node(tmp_path / "second")]
    for node in nodes:
        node.shell(print_answer())
    with running_agent(nodes[0], "--metrics", "127.0.0.1:0") as first, running_agent(nodes[1]) as other:
        address = port_of(first)
        second = RunningAgent(nodes[1], "--metrics", address)
        assert second.process.wait(20) != 0
        assert f"metrics: cannot listen at {address}: address already in use" in second.log
        assert other.look_up(IMAGE).status == 200
        assert len({samples(scrape(address))["process_start_time_seconds"] for _ in range(8)}) == 1


def promtool(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [need("promtool"), *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return rules


def test_the_alert_rules_are_right() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(RULES))
    assert "SUCCESS" in promtool("test", "rules", str(RULE_TESTS))


def test_each_alert_is_tested_where_it_fires_and_where_it_does_not() -> None:
    checks = [
        check for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for check in test["alert_rule_test"]
    ]
    names = {each["alert"] for each in alerts()}
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == names
    assert {check["alertname"] for check in checks if not check.get("exp_alerts")} == names


def test_each_alert_leads_to_its_part_of_the_docs() -> None:
    headings = re.findall(r"^### (Keyferry\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [each["alert"] for each in alerts()]
    for each in alerts():
        assert each["annotations"]["runbook"] == f"docs/metrics.md#{each['alert'].lower()}"


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression names: words before a selector, or of keyferry's own."""
    named = set(re.findall(r"([a-z_:]+)\{", expression))
    return {*named, *re.findall(r"\bkeyferry_\w+", re.sub(r'"[^"]*"', "", expression))}


def known(exposed: str) -> set[str]:
    """Every name that a query can use."""
    found = types(exposed)
    histograms = [name for name, kind in found.items() if kind == "histogram"]
    return {
        *found,
        *NO_METRICS,
        *(f"{name}_{end}" for name in histograms for end in ("bucket", "sum", "count")),
    }


def test_alerts_are_about_metrics_that_are_there(exposed: str) -> None:
    for each in alerts():
        named = metrics_in(each["expr"])
        assert named
        assert named <= known(exposed), each["alert"]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def test_the_expressions_of_the_dashboard_are_right(exposed: str, tmp_path: Path) -> None:
    """Each is what promtool understands, and about metrics that a real agent has."""
    queries = expressions()
    assert queries
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", str(path))
    for query in queries:
        assert metrics_in(query), query
        assert metrics_in(query) <= known(exposed), query


def test_the_dashboard_shows_every_metric_of_keyferry(exposed: str) -> None:
    """But for those that are only times of the past."""
    shown = {name.removesuffix("_bucket") for query in expressions() for name in metrics_in(query)}
    own = {name for name in types(exposed) if name.startswith(("keyferry_", "kubelet_"))}
    assert own - shown == {
        "keyferry_config_last_reload_success_timestamp_seconds",
        "kubelet_credential_provider_config_info",
    }


def test_the_dashboard_is_whole() -> None:
    """Ids that differ, units, descriptions, a data source that is chosen, panels that do not overlap."""
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    cells: set[tuple[int, int]] = set()
    for panel in found:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not own & cells, panel["title"]
        cells |= own
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["datasource"]["uid"] == "${datasource}"
            assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert [each["name"] for each in variables] == ["datasource", "job", "instance", "plugin_name"]
