"""The figures of a real agent are what Prometheus wants, what the docs list, and what alerts and dashboard use."""

from __future__ import annotations

import io
import json
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyferry import EnvironmentProblem
from keyferry.agent.connection import ConnectionTable
from keyferry.agent.figures import render_figures
from keyferry.agent.journal import Usage
from keyferry.agent.log import AgentLog
from keyferry.agent.refresh import PlannedRefresh, Refresher
from keyferry.agent.settings import Given
from keyferry.agent.state import Reloader
from keyferry.images.provider.state import ProviderState
from support.agent_here import agent_here
from support.agents import Agent, Reply, running_agent
from support.parts import need
from support.plugins import (
    IMAGE,
    PATIENCE_SECONDS,
    PLUGIN,
    REGISTRY,
    Node,
    print_answer,
    provider_entry,
    wait_until,
    write_config,
)
from support.scripted import SECOND

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "keyferry.rules.yaml"
RULE_TESTS = ROOT / "deploy" / "prometheus" / "keyferry.rules.test.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "keyferry.json"
BROKEN = "broken"
ANYWHERE = "127.0.0.1:0"
# Words of expressions that are no metrics: what Prometheus itself adds, and its functions, operators and labels.
NO_METRICS = {"up"}


def port_of(agent: Agent) -> str:
    found = re.search(r" metrics=(\S+)", agent.log)
    assert found is not None, agent.log
    return found[1]


def ask(address: str, method: str, target: str, host: str | None = None) -> Reply:
    place, _, port = address.rpartition(":")
    connection = HTTPConnection(place.strip("[]"), int(port), timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, target, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)


def scrape(address: str) -> str:
    reply = ask(address, "GET", "/metrics")
    assert reply.status == 200
    return reply.body.decode()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that was used: hits, runs, failures, refusals, a bad reload, a credential that is cached."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.shell(print_answer())
    node.shell("exit 3", BROKEN)
    entries = [provider_entry(), provider_entry(BROKEN, matchImages=[f"{REGISTRY}/broken"])]
    write_config(node.config, entries)
    with agent_here(node, "--metrics", ANYWHERE, "--watch", "false") as running:
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
def exposed(agent: Agent) -> str:
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


def test_the_figures_are_what_happened(agent: Agent, exposed: str) -> None:
    found = samples(exposed)
    assert found[f'keyferry_plugin_failures_total{{cause="exit",plugin_name="{BROKEN}"}}'] == 1
    assert found[f'kubelet_credential_provider_plugin_errors_total{{plugin_name="{BROKEN}"}}'] == 1
    assert found[f'keyferry_plugin_runs_total{{plugin_name="{PLUGIN}"}}'] == 1
    assert found[f'keyferry_provider_lookups_total{{plugin_name="{PLUGIN}",result="hit"}}'] == 2
    assert found[f'keyferry_agent_planned_refreshes{{plugin_name="{PLUGIN}"}}'] == 1
    assert found['keyferry_agent_clients_refused_total{reason="malformed"}'] == 2
    assert found["keyferry_config_reload_success"] == 0
    assert found['keyferry_config_reloads_total{result="failure"}'] == 1
    expires = found[f'keyferry_credential_expiry_timestamp_seconds{{plugin_name="{PLUGIN}"}}']
    renewed = found[f'keyferry_agent_next_refresh_timestamp_seconds{{plugin_name="{PLUGIN}"}}']
    # An answer for ten minutes, which is renewed when half to nine tenths of them are over.
    assert 59 <= expires - renewed <= 301
    assert expires <= time.time() + 601
    assert f'keyferry_credential_expiry_timestamp_seconds{{plugin_name="{BROKEN}"}}' not in found
    assert agent.ask("GET", "/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_the_command_of_the_page_prints_the_figures(agent: Agent, exposed: str) -> None:
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


def test_the_port_has_no_more_than_figures_and_health(agent: Agent) -> None:
    """And they are only read; what the socket serves is for users whom the kernel names."""
    address = port_of(agent)
    read = ("/metrics", "/healthz", "/readyz")
    assert [ask(address, "GET", path).body for path in read[1:]] == [b"ok\n"] * 2
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert {ask(address, method, path).status for path in read} == {405}
    for path in ("/", "/v1/status", "/v1/lookup", "/v1/handover", "/metrics/", "//metrics", "/page"):
        assert [ask(address, method, path).status for method in ("GET", "POST")] == [404, 404]


def test_readiness_ends_when_the_agent_stops_and_health_does_not(node: Node) -> None:
    node.recording(before='until [ -e "$HERE/go" ]; do sleep 0.05; done')
    with agent_here(node, "--metrics", ANYWHERE) as agent:
        asking = threading.Thread(target=agent.look_up, args=(IMAGE,))
        asking.start()
        wait_until(node.runs, "the run")
        agent.begin_to_stop()
        wait_until(lambda: " stopping " in agent.log, "the end")
        found = [ask(port_of(agent), "GET", path).status for path in ("/readyz", "/healthz")]
        node.file("go").touch()
        asking.join()
    assert found == [503, 200]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1", 200), ("[::1]:9750", 200)),
        *(("evil.example", 421), ("evil.example:9750", 421), ("localhost.evil.example", 421), ("", 421)),
    ],
)
def test_on_loopback_a_name_of_somebodys_domain_is_refused(agent: Agent, host: str, status: int) -> None:
    """A web page whose name leads to 127.0.0.1 would read it otherwise."""
    assert ask(port_of(agent), "GET", "/metrics", host).status == status


def test_elsewhere_any_name_will_do(node: Node) -> None:
    """Prometheus names a node as its config does."""
    with agent_here(node, "--metrics", "0.0.0.0:0") as agent:
        port = port_of(agent).rpartition(":")[2]
        assert ask(f"127.0.0.1:{port}", "GET", "/metrics", "node-1.example:9750").status == 200


class _Figures:
    """Counts how often figures are made."""

    def __init__(self, text: bytes = b"keyferry_build_info 1\n") -> None:
        self.made = 0
        self._text = text

    def __call__(self, *_: object) -> bytes:
        self.made += 1
        return self._text


def test_figures_are_not_made_for_every_request_of_a_flood(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = _Figures()
    monkeypatch.setattr("keyferry.agent.figures.render_figures", figures)
    with agent_here(node, "--metrics", ANYWHERE) as agent:
        for _ in range(20):
            scrape(port_of(agent))
    assert 0 < figures.made < 20


def test_silent_clients_do_not_shut_out_others(agent: Agent) -> None:
    with ExitStack() as clients:
        for _ in range(200):
            clients.enter_context(connect(port_of(agent)))
        assert ask(port_of(agent), "GET", "/healthz").status == 200


def test_clients_that_do_not_read_their_replies_do_not_shut_out_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyferry.agent.figures.render_figures", _Figures(b"x" * 1_000_000))
    with agent_here(node, "--metrics", ANYWHERE) as agent, ExitStack() as clients:
        host, _, port = port_of(agent).rpartition(":")
        deaf = [clients.enter_context(socket.socket()) for _ in range(64)]
        for each in deaf:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect((host, int(port)))
            each.setblocking(False)
            with suppress(OSError):
                each.send(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 50)
        # Each has a reply to read, or had to give way.
        wait_until(lambda: len(select.select(deaf, [], [], 0)[0]) == len(deaf), "the replies")
        assert [ask(port_of(agent), "GET", "/healthz").status for _ in range(5)] == [200] * 5


@pytest.mark.parametrize("head", [b"content-length: 1", b"transfer-encoding: chunked"])
def test_no_body_is_read(agent: Agent, head: bytes) -> None:
    with connect(port_of(agent)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n%b\r\n\r\n1\r\n" % head)
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_silent_clients_do_not_take_the_place_of_a_scraper_that_has_asked(node: Node) -> None:
    """Nobody knows who is who on this port; the agent is busy until all have connected."""
    with running_agent(node, "--metrics", ANYWHERE) as agent, ExitStack() as clients:
        agent.process.send_signal(signal.SIGSTOP)
        scraper = clients.enter_context(connect(port_of(agent)))
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for _ in range(40):
            clients.enter_context(connect(port_of(agent)))
        agent.process.send_signal(signal.SIGCONT)
        assert scraper.recv(12) == b"HTTP/1.1 200"


def test_an_upgrade_takes_the_port_along(node: Node) -> None:
    """The new agent listens at the same port at once; the old one leaves it, and answers readyz until then."""
    with running_agent(node, "--metrics", ANYWHERE) as old:
        address = port_of(old)
        with running_agent(node, "--metrics", address) as new:
            wait_until(lambda: "another process has the socket" in old.log, "the old agent to notice")
            pids = {samples(scrape(address))["process_start_time_seconds"] for _ in range(8)}
            assert len(pids) == 1
            assert old.stop() == 0
            assert new.stop() == 0


def test_an_agent_whose_port_is_taken_leaves_the_socket_alone(node: Node) -> None:
    """It does not start, and an agent that is there keeps its place."""
    with agent_here(node) as first, socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with refused(address), agent_here(node, "--metrics", address):
            pass
        assert first.look_up(IMAGE).status == 200


def test_an_agent_with_another_socket_does_not_share_the_port(agent: Agent, node: Node) -> None:
    """Scrapes would reach now the one and now the other; neither is the successor of the other."""
    with agent_here(node) as other:
        with refused(port_of(agent)), agent_here(node, "--metrics", port_of(agent)):
            pass
        assert other.look_up(IMAGE).status == 200


def refused(address: str) -> AbstractContextManager[object]:
    """Expect that an agent cannot listen at an address."""
    problem = f"metrics: cannot listen at {address}: address already in use"
    return pytest.raises(EnvironmentProblem, match=f"^{re.escape(problem)}")


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


def test_the_first_row_of_the_dashboard_says_which_providers_fail_now() -> None:
    """By node and name, at this moment, and so that all states that are not well have words."""
    first, *rest = panels()
    (next_row,) = (each["gridPos"]["y"] for each in rest if each["title"] == "Is all well")
    shown = [each for each in rest if each["gridPos"]["y"] < next_row]
    assert (first["type"], first["gridPos"]["y"]) == ("row", 0)
    assert all(target["instant"] for each in shown for target in each["targets"])
    (table,) = (each for each in shown if each["type"] == "table")
    (expression,) = (target["expr"] for target in table["targets"])
    assert set(ProviderState) - {"well", "unused"} == set(
        re.findall(r'state=~"(.*?)"', expression)[0].split("|")
    )
    (override,) = table["fieldConfig"]["overrides"]
    (mapping,) = (each["value"] for each in override["properties"] if each["id"] == "mappings")
    assert set(mapping[0]["options"]) == set(ProviderState) - {"well", "unused"}


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
def parts(node: Node) -> _Parts:
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
