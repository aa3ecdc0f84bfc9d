"""The figures of a real agent are what Prometheus wants, what the docs list, and what alerts and dashboard use."""

from __future__ import annotations

import asyncio
import io
import json
import re
import select
import shlex
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyferry._net.listen_address import parse_listen_address
from keyferry.agent.connection import ConnectionTable
from keyferry.agent.figures import render_figures
from keyferry.agent.journal import Usage
from keyferry.agent.log import AgentLog
from keyferry.agent.message import AgentReply, AgentRequest
from keyferry.agent.metrics_port import MetricsPort
from keyferry.agent.refresh import PlannedRefresh, Refresher
from keyferry.agent.settings import Given
from keyferry.agent.state import Reloader
from keyferry.errors import EnvironmentProblem
from keyferry.images.provider.state import JUDGED_RUNS, UNSTABLE_FAILURES, ProviderState
from support.agents import Reply, RunningAgent, running_agent
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

ROOT = Path(__file__).resolve().parents[2]
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


def test_an_alert_is_critical_only_if_pods_cannot_pull() -> None:
    assert {each["alert"]: each["labels"]["severity"] for each in alerts()} == {
        **{each["alert"]: "warning" for each in alerts()},
        "KeyferryProviderFailing": "critical",
    }


def test_the_threshold_of_unstable_is_that_of_the_page_and_the_status() -> None:
    """The metric has the state, and the words of the alert are right."""
    assert (UNSTABLE_FAILURES, JUDGED_RUNS) == (3, 10)
    (alert,) = (each for each in alerts() if each["alert"] == "KeyferryProviderUnstable")
    assert ProviderState.UNSTABLE in alert["expr"]
    assert alert["annotations"]["description"].startswith("Three of its last ten runs failed.")


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


FIGURES = b"keyferry_build_info 1\n"


class _Figures:
    """Counts how often figures are made."""

    def __init__(self, text: bytes = FIGURES) -> None:
        self.made = 0
        self._text = text

    def __call__(self) -> AgentReply:
        self.made += 1
        return AgentReply(status=200, body=self._text, content_type=b"text/plain; version=0.0.4")


def ask(address: str, method: str, target: str, host: str | None = None) -> Reply:
    place, _, port = address.rpartition(":")
    connection = HTTPConnection(place.strip("[]"), int(port), timeout=20)
    try:
        connection.request(method, target, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def served(
    questions: Callable[[str], list[Reply]],
    *,
    figures: _Figures | None = None,
    is_stopping: bool = False,
    at: str = "127.0.0.1:0",
) -> list[Reply]:
    """Serve a port while another thread asks its questions."""

    async def run() -> list[Reply]:
        port = MetricsPort(at, figures or _Figures(), lambda: is_stopping)
        await port.serve()
        try:
            return await asyncio.to_thread(questions, port.address)
        finally:
            port.close()

    return asyncio.run(run())


def test_figures_and_health_are_there() -> None:
    paths = ("/metrics", "/healthz", "/readyz")
    replies = served(lambda at: [ask(at, "GET", path) for path in paths])
    assert [(reply.status, reply.body) for reply in replies] == [
        (200, FIGURES),
        (200, b"ok\n"),
        (200, b"ok\n"),
    ]
    assert all("Set-Cookie" not in reply.headers for reply in replies)


def test_head_has_the_length_and_no_body() -> None:
    """On one connection with another request, which is understood."""

    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            head = f"host: {at}\r\n"
            client.sendall(f"HEAD /metrics HTTP/1.1\r\n{head}\r\n".encode())
            client.sendall(f"GET /healthz HTTP/1.1\r\n{head}connection: close\r\n\r\n".encode())
            data = b""
            while piece := client.recv(65536):
                data += piece
        return [Reply(0, {}, data)]

    [whole] = served(questions)
    first, second, body = whole.body.split(b"\r\n\r\n")
    assert b"content-length: %d" % len(FIGURES) in first
    assert second.startswith(b"HTTP/1.1 200 OK")
    assert body == b"ok\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(method: str) -> None:
    replies = served(lambda at: [ask(at, method, path) for path in ("/metrics", "/healthz", "/readyz")])
    assert {reply.status for reply in replies} == {405}


@pytest.mark.parametrize(
    "path", ["/", "/v1/status", "/v1/lookup", "/v1/reload", "/metrics/", "//metrics", "/page"]
)
def test_nothing_else_is_there(path: str) -> None:
    """What the socket serves is for users whom the kernel names."""
    replies = served(lambda at: [ask(at, method, path) for method in ("GET", "POST")])
    assert [reply.status for reply in replies] == [404, 404]


def test_readiness_ends_when_the_agent_stops_and_health_does_not() -> None:
    replies = served(lambda at: [ask(at, "GET", path) for path in ("/readyz", "/healthz")], is_stopping=True)
    assert [reply.status for reply in replies] == [503, 200]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1", 200), ("[::1]:9750", 200)),
        *(("evil.example", 421), ("evil.example:9750", 421), ("localhost.evil.example", 421), ("", 421)),
    ],
)
def test_on_loopback_a_name_of_somebodys_domain_is_refused(host: str, status: int) -> None:
    """A web page whose name leads to 127.0.0.1 would read it otherwise."""
    [reply] = served(lambda at: [ask(at, "GET", "/metrics", host)])
    assert reply.status == status


def test_elsewhere_any_name_will_do() -> None:
    """Prometheus names a node as its config does."""

    def question(at: str) -> list[Reply]:
        return [ask(f"127.0.0.1:{at.rpartition(':')[2]}", "GET", "/metrics", "node-1.example:9750")]

    assert [reply.status for reply in served(question, at="0.0.0.0:0")] == [200]


def test_figures_are_not_made_for_every_request_of_a_flood() -> None:
    figures = _Figures()
    replies = served(lambda at: [ask(at, "GET", "/metrics") for _ in range(20)], figures=figures)
    assert len(replies) == 20
    assert figures.made < 20


def test_silent_clients_do_not_shut_out_others() -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(200)]
        try:
            return [ask(at, "GET", "/healthz")]
        finally:
            for each in silent:
                each.close()

    assert [reply.status for reply in served(questions)] == [200]


def test_clients_that_do_not_read_their_replies_do_not_shut_out_others() -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        deaf = [socket.socket() for _ in range(64)]
        try:
            for each in deaf:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                each.connect((host, int(port)))
                each.settimeout(0.01)
            for each in deaf:
                with suppress(OSError):
                    each.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 50)
            # Each has a reply to read, or had to give way.
            wait_until(lambda: len(select.select(deaf, [], [], 0)[0]) == len(deaf), "the replies")
            return [ask(at, "GET", "/healthz") for _ in range(5)]
        finally:
            for each in deaf:
                each.close()

    figures = _Figures(b"x" * 1_000_000)
    assert [reply.status for reply in served(questions, figures=figures)] == [200] * 5


def test_a_client_that_leaves_has_one_request_answered_of_all_that_it_sent() -> None:
    answered: list[bytes] = []

    class Counted(MetricsPort):
        def answer(self, request: AgentRequest, host: bytes) -> AgentReply:
            answered.append(request.path)
            return super().answer(request, host)

    async def run() -> None:
        port = Counted("127.0.0.1:0", _Figures(), lambda: False)
        await port.serve()
        host, _, number = port.address.rpartition(":")
        with socket.create_connection((host, int(number))) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 1_000)
        for _ in range(50):  # however busy the machine is, the loop goes round so often
            await asyncio.sleep(0.002)
        port.close()

    asyncio.run(run())
    # TCP tells of the end with the second reply.
    assert 1 <= len(answered) <= 3


@pytest.mark.parametrize("head", [b"content-length: 1", b"transfer-encoding: chunked"])
def test_no_body_is_read(head: bytes) -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n%b\r\n\r\n1\r\n" % head)
            return [Reply(int(client.recv(65536).split()[1]), {}, b"")]

    assert [reply.status for reply in served(questions)] == [413]


def test_a_head_without_end_is_refused() -> None:
    def questions(at: str) -> list[Reply]:
        return [ask(at, "GET", "/metrics?" + "x" * 20_000)]

    assert [reply.status for reply in served(questions)] == [431]


def test_an_agent_and_its_successor_listen_at_one_port_and_the_later_one_stays() -> None:
    """So that an upgrade in the node's own network has no gap; one that is no successor is refused."""

    async def run() -> list[Reply]:
        old = MetricsPort("127.0.0.1:0", _Figures(), lambda: True)
        await old.serve()
        address = parse_listen_address(old.address)
        with pytest.raises(EnvironmentProblem, match="address already in use"):
            MetricsPort(old.address, _Figures(), lambda: False)
        new = MetricsPort(old.address, _Figures(), lambda: False, [address] if address else [])
        await new.serve()
        old.stop_listening()
        try:
            replies = [await asyncio.to_thread(ask, new.address, "GET", "/readyz") for _ in range(20)]
        finally:
            old.close()
            new.close()
        return replies

    assert {reply.status for reply in asyncio.run(run())} == {200}


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
