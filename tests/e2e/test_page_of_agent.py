"""The page of a real agent in Chromium: a link opens it, and it follows what the agent does."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from support.agents import RunningAgent, running_agent
from support.page import make_link, page_host
from support.plugins import IMAGE, Node, provider_entry, write_config


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
        expect(page.locator("#health-line")).to_have_text("1 thing is not well")
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


def test_a_browser_without_a_link_is_told_what_to_type(browser: Browser, agent: RunningAgent) -> None:
    page = browser.new_page()
    page.goto(f"http://{page_host(agent)}/answers")
    expect(page.locator("main code")).to_have_text(f"keyferry agent page --socket {agent.socket}")
    page.close()
