"""The page of a real agent in Chromium: a link opens it, and it follows what the agent does."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.agents import RunningAgent, running_agent
from support.page import make_link, page_host
from support.plugins import IMAGE, PATIENCE_SECONDS, Node, provider_entry, write_config


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    found = Node(tmp_path_factory.mktemp("node"))
    found.recording("Image")
    write_config(found.config, [provider_entry()])
    return found


@pytest.fixture(scope="module")
def agent(node: Node) -> Iterator[RunningAgent]:
    with running_agent(node, "--page", "127.0.0.1:0") as running:
        yield running


@pytest.fixture
def page(browser: Browser, agent: RunningAgent) -> Iterator[Page]:
    """A browser that has opened a link; nothing may be refused by the policy."""
    with opened_page(browser, agent) as found:
        yield found


@contextmanager
def opened_page(browser: Browser, agent: RunningAgent) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    found.goto(f"http://{page_host(agent)}{make_link(agent)}")
    expect(found.locator("#connection")).to_have_text("Live")
    yield found
    context.close()
    assert [each for each in complaints if "net::ERR_" not in each] == []


def test_a_lookup_appears_and_is_explained_without_a_run(page: Page, agent: RunningAgent) -> None:
    agent.look_up(f"{IMAGE}-seen")
    expect(page.locator("#recent")).to_contain_text(f"{IMAGE}-seen")
    expect(page.locator("#upcoming")).to_contain_text(f"{IMAGE}-seen")
    expect(page.locator("#health-line")).to_have_text("All is well")
    page.get_by_label("Image", exact=True).fill(f"{IMAGE}-seen")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("heading", level=2)).to_have_text(
        re.compile("^Would answer from the cache until")
    )
    expect(page.locator("ol.flow > li")).to_have_count(6)


def test_a_refused_reload_appears_and_goes(page: Page, node: Node) -> None:
    good = node.config.read_text()
    try:
        node.config.write_text("kind: nonsense")
        expect(page.locator("#health-line")).to_have_text("1 warning")
        expect(page.locator("#last_reloads")).to_contain_text("refused")
    finally:
        node.config.write_text(good)
    expect(page.locator("#health-line")).to_have_text("All is well")


def test_a_pause_holds_and_a_search_finds(page: Page, agent: RunningAgent) -> None:
    page.get_by_role("link", name="Decisions", exact=True).click()
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("p")
    agent.look_up("elsewhere.example/held")
    expect(page.locator("#pause")).to_have_text(re.compile("^Resume · "))
    expect(page.locator("#decisions")).not_to_contain_text("elsewhere.example/held")
    page.keyboard.press("p")
    expect(page.locator("#decisions")).to_contain_text("elsewhere.example/held")
    page.get_by_label("Search", exact=True).fill("elsewhere")
    expect(page.locator("#decisions tbody tr")).to_have_count(1)


def test_the_page_can_be_used_by_keyboard_alone(page: Page, agent: RunningAgent) -> None:
    """From the first Tab to a copied command, through the box and the explanation of an image."""
    image = f"{IMAGE}-typed"
    agent.look_up(image)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Image", exact=True)).to_be_focused()
    page.keyboard.type(image)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text(
        re.compile("^Would answer from the cache until")
    )
    expect(page.locator("#connection")).to_have_text("Live")
    copied = page.locator("button.copy:focus")
    for _ in range(40):
        page.keyboard.press("Tab")
        if copied.count():
            break
    page.keyboard.press("Enter")
    expect(copied).to_have_text(re.compile("^(Copied|Selected)$"))
    expect(copied).to_have_attribute("aria-label", re.compile("^Copy keyferry explain .* --check-registry$"))


# The agent, which renews even answers that live for seconds.
EAGER = """\
import sys
from keyferry.agent import refresh
from keyferry.cli.main import run
refresh.MIN_LIFE_NS = 0
del sys.argv[1:4]  # the way to run the usual one
run()
"""


@contextmanager
def ending(agent: RunningAgent) -> Iterator[None]:
    """End the agent with the block."""
    try:
        yield
    finally:
        agent.process.kill()
        agent.process.wait(PATIENCE_SECONDS)


def test_an_answer_is_seen_being_renewed(browser: Browser, tmp_path: Path) -> None:
    """The agent renews one that lives for ten seconds after five to nine."""
    image = "short.example/app"
    node = Node(tmp_path)
    node.recording("Image", name="short", duration="10s", auth={"short.example": ("user", "pass")})
    write_config(node.config, [provider_entry("short", matchImages=["short.example"])])
    agent = RunningAgent(node, "--page", "127.0.0.1:0", before=(sys.executable, "-c", EAGER))
    with ending(agent), opened_page(browser, agent.wait_ready()) as page:
        page.get_by_role("link", name="Answers", exact=True).click()
        expect(page.locator("#connection")).to_have_text("Live")
        agent.look_up(image)
        row = page.locator("#answers tbody tr", has_text=image)
        ends = row.locator("td[data-label=Ends] time")
        first = ends.get_attribute("datetime")
        assert first
        identifier = row.get_attribute("id")
        expect(ends).not_to_have_attribute("datetime", first)
        assert (ends.get_attribute("datetime") or "") > first
        assert row.get_attribute("id") == identifier
        assert node.runs("short")[:2] == [image, image]
        expect(page.locator("#connection")).to_have_text("Live")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_is_gone_is_not_well(browser: Browser, tmp_path: Path, end: signal.Signals) -> None:
    """Stopped, killed, or silent for long: nothing is counted on, the banner is grey, and another agent revives it."""
    node = Node(tmp_path)
    node.recording()
    with running_agent(node, "--page", "127.0.0.1:0") as agent, opened_page(browser, agent) as page:
        banner, since = page.locator("#health"), page.locator("#health .since time")
        well = _look(banner)
        page.clock.install()
        page.reload()
        expect(page.locator("#connection")).to_have_text("Live")
        page.clock.fast_forward(5_000)
        expect(since).to_have_text(re.compile(r"^for \d+ s$"))
        expect(page.locator("#connection")).to_have_text("Live")
        assert _look(banner) == well
        agent.process.send_signal(end)
        page.clock.run_for(60_000 if end is signal.SIGSTOP else 100)
        expect(page.locator("#connection")).to_have_text(
            re.compile("^(The agent has stopped|Connection lost)$")
        )
        told = since.text_content()
        page.clock.run_for(30_000)
        assert since.text_content() == told
        assert _look(banner) != well
        assert page.locator("#health-line").evaluate("e => getComputedStyle(e, '::before').content") == (
            '"Last known: "'
        )
        expect(page).to_have_title(re.compile(r"^\? "))
        if end is signal.SIGSTOP:
            agent.process.send_signal(signal.SIGCONT)
            page.clock.run_for(60_000)
            expect(page.locator("#connection")).to_have_text("Live")
            assert _look(banner) == well
            expect(since).not_to_have_text(str(told))


def _look(banner: Locator) -> str:
    """Return the colours of the banner and its mark."""
    return str(
        banner.evaluate(
            "e => getComputedStyle(e).backgroundColor + getComputedStyle(e.querySelector('.mark')).color"
        )
    )


def test_a_browser_without_a_link_is_told_what_to_type(browser: Browser, agent: RunningAgent) -> None:
    page = browser.new_page()
    page.goto(f"http://{page_host(agent)}/answers")
    expect(page.locator("main code")).to_have_text(f"keyferry agent page --socket {agent.socket}")
    page.close()
