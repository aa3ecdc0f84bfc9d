"""The agent's page, served by a real agent: off unless asked for, opened by a link, live, and without effect."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.agents import RunningAgent, make_token, running_agent
from support.commands import run_keyferry
from support.page import VIEWS, PageClient, log_in, make_link, page_host, shown_text
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    provider_entry,
    wait_until,
    write_config,
    write_executable,
)

ANYWHERE = "127.0.0.1:0"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent with a page; each test uses images of its own."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.recording("Image")
    write_config(node.config, [provider_entry()])
    with running_agent(node, "--page", ANYWHERE) as running:
        yield running


@pytest.fixture(scope="module")
def client(agent: RunningAgent) -> PageClient:
    """A browser that has opened a link."""
    return log_in(agent)


def wait_for(events: Iterator[tuple[str, dict[str, str]]], section: str, text: str) -> None:
    """Read events until a part of the view has a text."""
    for name, sections in events:
        if name == "sections" and text in sections.get(section, ""):
            return
    raise AssertionError(f"{text!r} never came")


def test_there_is_no_page_unless_it_is_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with running_agent(node) as agent:
        assert (agent.status["page"], agent.status["pageProblem"]) == (None, "")
        done = run_keyferry("agent", "page", "--socket", agent.socket)
    assert (done.returncode, done.stdout) == (3, "")
    assert "start it with --page 127.0.0.1:7475" in done.stderr


def test_the_command_prints_a_link_that_opens_the_page(agent: RunningAgent) -> None:
    done = run_keyferry("agent", "page", "--socket", agent.socket)
    host = page_host(agent)
    assert done.returncode == 0
    assert done.stdout.startswith(f"http://{host}/login?key=")
    assert "works once, until" in done.stderr
    opened = PageClient(host).ask(done.stdout.strip().removeprefix(f"http://{host}"))
    assert (opened.status, opened.headers["location"]) == (303, "/")
    assert f" page=http://{host}/ " in agent.log
    assert f"made a link to the page uid={os.geteuid()}" in agent.log
    shown = run_keyferry("agent", "status", "--socket", agent.socket).stdout
    assert (
        f"page    http://{host}/; 'keyferry agent page --socket {agent.socket}' prints a link to it" in shown
    )
    shown = run_keyferry("agent", "status", KEYFERRY_AGENT=agent.socket).stdout
    assert f"page    http://{host}/; 'keyferry agent page' prints a link to it" in shown


def test_the_command_of_a_notice_reaches_this_agent(agent: RunningAgent) -> None:
    stranger = PageClient(page_host(agent))
    for view in ("/", "/login?key=x"):
        shown = shown_text(stranger.ask(view).body)
        assert f"keyferry agent page --socket {agent.socket}\n" in shown


def test_the_command_opens_a_browser_on_request(agent: RunningAgent, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = write_executable(tmp_path / "browser", f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    done = run_keyferry("agent", "page", "--open", "--socket", agent.socket, BROWSER=str(browser))
    assert done.returncode == 0
    wait_until(opened.exists, "the browser")
    wait_until(lambda: opened.read_text() == done.stdout.strip(), "the link")


def test_every_view_is_served_and_none_runs_a_plugin(agent: RunningAgent, client: PageClient) -> None:
    """Nor does one count as a request, or as a hit of the cache."""
    agent.look_up(IMAGE)
    before = agent.status
    for view in (*VIEWS, "/explain?image=registry.example/never/asked:v1"):
        assert client.ask(view).status == 200
        assert client.ask(view, "HEAD").status == 200
    after = agent.status
    assert after["providers"] == before["providers"]
    assert after["callers"] == before["callers"]
    text = client.text("/explain?image=registry.example/never/asked:v1")
    assert "Would run the plugin" in text


def test_replies_are_for_this_browser_alone(client: PageClient) -> None:
    for view in ("/", "/static/page.css", "/nothing", "/events"):
        headers = (client if view != "/events" else PageClient(client.host)).ask(view).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; ")
        assert headers["content-security-policy"].endswith("; frame-ancestors 'none'")
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_head_has_no_body_and_the_length_of_one(client: PageClient) -> None:
    reply = client.ask("/settings", "HEAD")
    assert reply.body == b""
    assert int(reply.headers["content-length"]) > 100


def test_a_decision_is_shown_with_who_made_it_and_why(agent: RunningAgent, client: PageClient) -> None:
    agent.look_up("registry.example/shown/run:v1")
    agent.look_up("registry.example/shown/run:v1")
    agent.look_up("elsewhere.example/shown/other:v1")
    token = make_token(time.time() + 600)
    account = {"namespace": "ns", "name": "builder", "uid": "u"}
    agent.look_up("registry.example/shown/account", serviceAccountToken=token, serviceAccount=account)
    agent.look_up("registry.example/shown/named", provider=PLUGIN)
    agent.ask("POST", "/v1/lookup", {"registry": REGISTRY})
    agent.ask(
        "POST",
        "/v1/evict",
        {"image": "registry.example/shown/run:v1", "username": "user", "password": "pass"},
    )
    text = client.text("/decisions")
    for words in (
        *(
            "registry.example/shown/run:v1",
            "the plugin was run",
            "from the cache",
            "no provider matches the image",
        ),
        *("ns/builder", "it is dropped", os.path.realpath(f"/proc/{os.getpid()}/exe")),
    ):
        assert words in text
    assert token not in text
    assert "ns/builder" in str(client.text("/explain")) + text


def test_a_provider_names_the_decisions_in_which_it_took_part(tmp_path: Path) -> None:
    """Whoever was asked for: all providers, this one, or a registry; from a run, from the cache, or in vain."""
    node = Node(tmp_path)
    node.recording()
    node.shell("exit 1", "broken")
    other = provider_entry("other", matchImages=["other.example"])
    broken = provider_entry("broken", matchImages=["broken.example", f"{REGISTRY}/both"])
    node.recording(name="other", auth={"other.example": ("user", "pass")})
    write_config(node.config, [provider_entry(), other, broken])
    with running_agent(node, "--page", ANYWHERE) as agent:
        client = log_in(agent)
        assert "No recent decision names this provider" in client.text(f"/providers/{PLUGIN}")
        agent.look_up(f"{REGISTRY}/run:v1")
        agent.look_up(f"{REGISTRY}/cached:v1")
        agent.look_up(f"{REGISTRY}/both:v1")
        agent.look_up("broken.example/app:v1")
        agent.look_up("elsewhere.example/app:v1")
        agent.ask("POST", "/v1/lookup", {"registry": "other.example"})
        shown = {
            name: set(_decided(client.text(f"/providers/{name}"))) for name in (PLUGIN, "other", "broken")
        }
        assert shown == {
            PLUGIN: {f"{REGISTRY}/{each}:v1" for each in ("run", "cached", "both")},
            "other": {"other.example"},
            "broken": {f"{REGISTRY}/both:v1", "broken.example/app:v1"},
        }
        assert '<a href="/providers/broken">' in client.text("/decisions/3")


def _decided(view: str) -> list[str]:
    """The images of the decisions on the view of a provider."""
    return re.findall(r'<li id="decision-\d+">.*?<a [^>]*title="([^"]+)"', view, re.DOTALL)


def test_it_says_since_when_all_is_well_or_not(tmp_path: Path) -> None:
    """The first failure counts, not the last; then the first run that did not fail."""
    node = Node(tmp_path)
    node.shell("exit 1")
    write_config(node.config, [provider_entry()])
    with running_agent(node, "--page", ANYWHERE) as agent:
        client = log_in(agent)

        def since(words: str) -> str:
            agent.look_up(IMAGE)
            view = client.text("/")
            assert words in view
            [found] = re.findall(r'<p class="since"><time class="lasting" datetime="([^"]+)">', view)
            return str(found)

        first = since("1 problem")
        wait_until(lambda: utc_now() > first, "the next second")
        assert since("1 problem") == first
        node.recording(duration="0s")
        well = since("All is well")
        assert well > first
        wait_until(lambda: utc_now() > well, "the next second")
        assert since("All is well") == well


def utc_now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def test_who_follows_sees_a_decision_and_a_broken_reload_come_and_go(
    agent: RunningAgent, client: PageClient
) -> None:
    good = agent.node.config.read_text()
    with client.follow("/") as events:
        name, first = next(events)
        assert (name, "All is well" in first["health"]) == ("sections", True)
        agent.node.config.write_text("{")
        wait_for(events, "health", "The new config is refused")
        agent.node.config.write_text(good)
        wait_for(events, "health", "All is well")


def test_who_follows_a_view_gets_that_view(agent: RunningAgent, client: PageClient) -> None:
    with client.follow("/explain?image=registry.example/followed:v1") as events:
        name, sections = next(events)
        assert name == "sections"
        assert "Would run the plugin" in str(sections)
        agent.look_up("registry.example/followed:v1")
        assert "Would answer from the cache until" in str(next(events))


def test_a_stop_is_told_to_who_follows(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with running_agent(node, "--page", ANYWHERE) as agent, log_in(agent).follow("/") as events:
        assert next(events)[0] == "sections"
        assert agent.stop() == 0
        assert [name for name, _ in events] == ["gone"]


def test_a_successor_takes_the_page_over_at_the_same_port(tmp_path: Path) -> None:
    """The old process closes its page; its cookies are not the successor's."""
    node = Node(tmp_path)
    node.recording()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running_agent(node, "--page", f"127.0.0.1:{port}") as first:
        client = log_in(first)
        with client.follow("/") as events:
            assert next(events)[0] == "sections"
            with running_agent(node, "--page", f"127.0.0.1:{port}") as second:
                assert "gone" in [name for name, _ in events]
                assert client.ask("/").status == 401
                assert log_in(second).ask("/").status == 200


def test_a_port_that_is_taken_stops_no_lookup(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with running_agent(node, "--page", address) as agent:
            assert agent.look_up(IMAGE).status == 200
            problem = agent.status["pageProblem"]
            done = run_keyferry("agent", "page", "--socket", agent.socket)
    assert done.returncode == 3
    assert problem == f"page: cannot listen at {address}: address already in use"
    assert f"the page is not served: {problem}" in done.stderr


def test_the_port_of_an_agent_with_another_socket_is_taken(tmp_path: Path) -> None:
    """Only the agent that takes the place of the first one shares its port, for as long as both are there."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    nodes = [Node(tmp_path / "first"), Node(tmp_path / "second")]
    for node in nodes:
        node.recording()
    with running_agent(nodes[0], "--page", "127.0.0.1:0") as first:
        address = first.status["page"].removeprefix("http://").rstrip("/")
        with running_agent(nodes[1]), running_agent(nodes[1], "--page", address) as second:
            problem = f"page: cannot listen at {address}: address already in use"
            assert (second.status["page"], second.status["pageProblem"]) == (None, problem)
            assert {log_in(first).ask("/").status for _ in range(8)} == {200}


@pytest.mark.parametrize("address", ["0.0.0.0:0", "localhost:80", "127.0.0.1"])
def test_only_loopback_is_served(tmp_path: Path, address: str) -> None:
    node = Node(tmp_path)
    done = run_keyferry("agent", "run", "--page", address, "--config", str(node.config), "--bin-dir", "/")
    assert done.returncode == 3
    assert "flag --page: found" in done.stderr
    assert "expected 'off' or a loopback address and a port" in done.stderr


def test_a_page_of_another_address_counts_after_a_restart(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    config = tmp_path / "agent.yaml"
    config.write_text("apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n")
    with running_agent(node, "--agent-config", str(config)) as agent:
        config.write_text(config.read_text() + "page: 127.0.0.1:0\n")
        answer = agent.ask("POST", "/v1/reload").document
    assert answer["notes"] == ["page: the new value counts after a restart"]


def test_a_link_is_not_spent_by_a_look_at_it(agent: RunningAgent) -> None:
    """Programs that look at links before people do send HEAD."""
    link, client = make_link(agent), PageClient(page_host(agent))
    assert client.ask(link, "HEAD").status == 405
    assert client.ask(link).status == 303
