"""The agent's page in Chromium: what an operator does with it, and that nothing but its own code runs in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from keyferry._core.values import Value, fields, replace
from keyferry.page.charts import SPANS
from keyferry.page.model import Health, HealthProblem, PageModel, ProblemLevel, ReloadRow
from support.axe import check_access
from support.page_models import NOW, crowded_model, empty_model, troubled_model, usual_model
from support.page_server import PageServer, serving

VIEWS = (
    "/",
    "/providers",
    "/providers/acr-credential-provider",
    "/answers",
    "/answers/105",
    "/decisions",
    "/decisions/48213",
    "/explain",
    "/explain?image=team.azurecr.io/build/base:12&account=shop/checkout",
    "/reloads",
    "/callers",
    "/settings",
    "/explain?image=elsewhere.example/app",
)
# Those that look different on a new and on a crowded node.
LISTS = ("/", "/providers", "/answers", "/decisions", "/reloads", "/callers")
MODELS: dict[str, Callable[[], PageModel]] = {
    "usual": usual_model,
    "empty": empty_model,
    "crowded": crowded_model,
    "troubled": troubled_model,
}
HOSTILE = "\"'><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture
def node() -> Iterator[PageServer]:
    with serving(usual_model()) as server:
        yield server


@pytest.fixture
def page_url(node: PageServer) -> str:
    """The address of the page, without a final slash."""
    return node.url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, on which nothing may be refused by the policy, and no script may fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield found
    context.close()
    # The server may end before the page does.
    assert [each for each in complaints if "net::ERR_" not in each] == []


def open_view(page: Page, url: str) -> None:
    """Open a view and wait until it is live."""
    page.goto(url)
    expect(page.locator("#connection")).to_have_text("Live")


def set_widths(page: Page, *widths: int) -> Iterator[int]:
    """Yield each width after the window has it; only the style of the page depends on it, and no script."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        yield width


def renew(model: PageModel, identifier: int) -> PageModel:
    """The model after an answer was renewed."""
    lives = tuple(
        replace(each, got=NOW, expires=NOW + 7 * 3600, refresh_at=NOW + 5 * 3600, failures=0)
        if each.identifier == identifier
        else each
        for each in model.lives
    )
    return replace(model, lives=lives)


def with_decision(model: PageModel, image: str) -> PageModel:
    newest = model.decisions[0]
    row = replace(newest, identifier=newest.identifier + 1, image=image)
    return replace(model, decisions=(row, *model.decisions), decisions_total=model.decisions_total + 1)


def test_an_image_is_typed_and_its_explanation_read(page: Page, page_url: str) -> None:
    open_view(page, page_url)
    page.get_by_label("Image", exact=True).fill("team.azurecr.io/build/base:12")
    page.get_by_label("Service account").fill("shop/checkout")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_url("**/explain?image=team.azurecr.io*&account=shop*")
    expect(page.get_by_role("heading", level=2)).to_have_text(
        re.compile("^Would answer from the cache until")
    )
    steps = page.locator("ol.flow > li")
    titles = ["Pull secrets", "Node config", "Providers", "Keys", "Order", "Verdict"]
    expect(steps.locator("h3")).to_have_text(titles)
    expect(steps.nth(0)).to_contain_text("not known here")
    boxes = [each.bounding_box() for each in steps.all()]
    assert len({box["y"] for box in boxes if box}) == 1  # a picture: side by side, on one line
    expect(page.get_by_label("Image", exact=True)).to_have_value("team.azurecr.io/build/base:12")


def test_a_renewed_answer_appears(page: Page, page_url: str, node: PageServer) -> None:
    open_view(page, page_url + "/answers")
    row = page.locator("#life-105")
    expect(row).to_contain_text("5 renewals failed")
    expect(row.locator("td").last).to_have_text("in 51 min")
    node.model = renew(node.model, 105)
    expect(row.locator("td").last).to_have_text(re.compile(r"in (6 h|7 h)"))
    expect(row).not_to_contain_text("failed")


def test_an_answer_that_goes_is_said_on_its_view(page: Page, page_url: str, node: PageServer) -> None:
    whole = node.model
    open_view(page, page_url + "/answers/105")
    expect(page.get_by_role("heading", level=1)).to_have_text("team.azurecr.io")
    node.model = replace(whole, lives=whole.lives[:3])
    expect(page.locator("main")).to_contain_text("This answer is no longer cached")
    node.model = whole
    expect(page.get_by_role("heading", level=1)).to_have_text("team.azurecr.io")


def test_a_broken_reload_appears_and_goes(page: Page, page_url: str, node: PageServer) -> None:
    good = node.model
    open_view(page, page_url)
    problem = HealthProblem(
        level=ProblemLevel.WARNING,
        text="the config was refused: the old one is in force",
        cure="sudo keyferry agent reload",
        link="/reloads",
        since=NOW,
    )
    broken = ReloadRow(at=NOW, is_applied=False, problems=("providers[0].name: is empty",), notes=())
    node.model = replace(
        good,
        health=Health(headline="2 problems", since=NOW, problems=(problem,)),
        reloads=(broken, *good.reloads),
    )
    expect(page.locator("#health-line")).to_have_text("2 problems")
    expect(page.locator("#last_reloads")).to_contain_text("providers[0].name: is empty")
    expect(page.locator("#last_reloads")).to_contain_text("the config before it stays in force")
    page.locator("#health summary").click()
    page.get_by_role("link", name="more about it").click()
    page.wait_for_url("**/reloads")
    expect(page.locator("#reloads")).to_contain_text("providers[0].name: is empty")
    node.model = good
    expect(page.locator("#health-line")).to_have_text(good.health.headline)
    expect(page.locator("#reloads")).not_to_contain_text("providers[0].name: is empty")


def test_a_pause_holds_changes_and_counts_them(page: Page, page_url: str, node: PageServer) -> None:
    open_view(page, page_url + "/decisions")
    button = page.locator("#pause")
    page.keyboard.press("p")
    expect(page.locator("#connection")).to_have_text("Paused")
    node.model = with_decision(node.model, "first.example/a")
    expect(button).to_have_text("Resume · 1 change waits")
    node.model = with_decision(node.model, "second.example/b")
    expect(button).to_have_text("Resume · 2 changes wait")
    expect(page.locator("#decisions")).not_to_contain_text("first.example/a")
    button.click()
    expect(page.locator("#decisions")).to_contain_text("first.example/a")
    expect(page.locator("#decisions")).to_contain_text("second.example/b")
    expect(button).to_have_text("Pause")
    expect(page.locator("#connection")).to_have_text("Live")


def show_tab(page: Page, *, is_hidden: bool) -> None:
    """Do what a browser does when its tab is left, or looked at again."""
    page.evaluate(
        """(value) => {
          Object.defineProperty(document, "hidden", {value, configurable: true});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_a_tab_that_is_looked_at_again_counts_no_change_where_there_is_none(
    page: Page, page_url: str, node: PageServer
) -> None:
    """Its new stream begins with all parts; while it was away, one of them changed, or none."""
    open_view(page, page_url + "/decisions")
    page.keyboard.press("p")
    for number in (1, 2):
        show_tab(page, is_hidden=True)
        with page.expect_response("**/events?*"):
            show_tab(page, is_hidden=False)
        node.model = with_decision(node.model, f"number-{number}.example/a")
        waits = "1 change waits" if number == 1 else "2 changes wait"
        expect(page.locator("#pause")).to_have_text(f"Resume · {waits}")
    expect(page.locator("#decisions")).not_to_contain_text("number-")
    page.keyboard.press("p")
    expect(page.locator("#decisions")).to_contain_text("number-2.example/a")


def test_a_change_leaves_focus_selection_scroll_and_what_is_unfolded(
    page: Page, page_url: str, node: PageServer
) -> None:
    open_view(page, page_url + "/providers/acr-credential-provider")
    page.get_by_text("As numbers").click()
    link = page.locator("#decisions-title ~ a, #decision-48212 a").last
    link.focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#decision-48212 a'))")
    before = page.evaluate("[scrollY, String(getSelection()), document.activeElement.href]")
    assert before[0] > 0
    assert before[1]
    provider = replace(node.model.providers[1], hits=777_777)
    node.model = with_decision(
        replace(node.model, providers=(node.model.providers[0], provider)), "x.example/y"
    )
    expect(page.locator("#provider")).to_contain_text("777,777")
    assert page.evaluate("[scrollY, String(getSelection()), document.activeElement.href]") == before
    expect(page.locator("main details")).to_have_attribute("open", "")
    expect(page.get_by_role("button", name=re.compile("^Copy"))).to_have_count(
        page.locator(".copied").count()
    )


def test_a_search_follows_what_is_typed_and_the_address_follows_the_search(page: Page, page_url: str) -> None:
    open_view(page, page_url + "/decisions")
    box = page.get_by_label("Search", exact=True)
    box.press_sequentially("skopeo")
    expect(page.locator("#decisions tbody tr")).to_have_count(4)
    page.wait_for_url("**/decisions?q=skopeo")
    expect(box).to_be_focused()
    page.get_by_label("Outcome").select_option("failed")
    page.wait_for_url("**/decisions?q=skopeo&outcome=failed")
    expect(page.locator("#decisions tbody tr")).to_have_count(1)
    page.reload()
    expect(box).to_have_value("skopeo")
    expect(page.locator("#decisions tbody tr")).to_have_count(1)
    box.fill("nothing like this")
    expect(page.locator("#decisions")).to_contain_text("No decision fits.")


def test_a_search_goes_on_being_live(page: Page, page_url: str, node: PageServer) -> None:
    open_view(page, page_url + "/decisions")
    page.get_by_label("Search", exact=True).fill("special")
    page.wait_for_url("**/decisions?q=special")
    node.model = with_decision(node.model, "special.example/a")
    expect(page.locator("#decisions tbody tr")).to_have_count(1)
    node.model = with_decision(node.model, "other.example/a")
    node.model = with_decision(node.model, "special.example/b")
    expect(page.locator("#decisions tbody tr")).to_have_count(2)


def test_everything_works_without_a_script(browser: Browser, page_url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_url + "/decisions")
    page.get_by_label("Search", exact=True).fill("skopeo")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/decisions?q=skopeo*")
    expect(page.locator("#decisions tbody tr")).to_have_count(4)
    expect(page.locator("#pause")).to_be_hidden()
    expect(page.locator("#health .since time")).to_have_text("since 2026-09-21 14:04:20 UTC")
    expect(page.locator("#decisions tbody time").first).to_have_text("14:11:46")
    expect(page.locator(".foot")).to_contain_text("Without JavaScript it does not change: load it again.")
    page.get_by_role("link", name="what to do").click()
    expect(page).to_have_title("! 1 · keyferry on ip-10-0-3-17.eu-west-1.compute.internal")
    page.locator("#health summary").click()
    expect(page.locator("#health code")).to_contain_text("keyferry plugin trace ")
    context.close()


TIMES_OUTSIDE = """(times) => times.filter((each) => each.checkVisibility()).filter((each) => {
  const [own, room] = [each, each.closest(`td, dd, footer, .line, .panel, main`)]
    .map((some) => some.getBoundingClientRect());
  return own.left < room.left - 1 || own.right > room.right + 1;
}).map((each) => each.textContent)"""


@pytest.mark.parametrize("make", [usual_model, crowded_model, troubled_model])
def test_without_a_script_times_have_room(browser: Browser, make: Callable[[], PageModel]) -> None:
    """They stand in their columns, and no view is wider than its window."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    with serving(make()) as node:
        for path in LISTS:
            page.goto(node.url + path)
            for width in set_widths(page, 390, 1024, 1440):
                assert page.evaluate("document.documentElement.scrollWidth") == width, path
                assert page.locator("main time").evaluate_all(TIMES_OUTSIDE) == [], (path, width)
    context.close()


def test_the_page_can_be_used_by_keyboard_alone(page: Page, page_url: str) -> None:
    open_view(page, page_url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Image", exact=True)).to_be_focused()
    page.keyboard.type("team.azurecr.io/p")  # a letter in a box is no command
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("Enter")
    page.wait_for_url("**/explain?image=team.azurecr.io*")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Copy":
            break
    expect(page.locator("button.copy:focus")).to_have_count(1)
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("button.copy:focus")).to_have_text(re.compile("^(Copied|Selected)$"))


def test_the_keys_can_be_turned_off(page: Page, page_url: str) -> None:
    open_view(page, page_url)
    page.get_by_role("button", name="Turn keys off").click()
    page.keyboard.press("p")
    expect(page.locator("#connection")).to_have_text("Live")
    page.reload()
    page.get_by_role("button", name="Turn keys on").click()
    page.keyboard.press("p")
    expect(page.locator("#connection")).to_have_text("Paused")


def test_a_lost_connection_and_an_agent_that_stops_are_said(browser: Browser) -> None:
    page = browser.new_page()
    with serving(usual_model()) as node:
        open_view(page, node.url)
        node.say_gone()
        expect(page.locator("#connection")).to_have_text(
            re.compile("^(The agent has stopped|Connection lost)")
        )
    expect(page.locator("#connection")).to_have_text("The agent has stopped")
    page.close()


def icon_of(page: Page) -> str | None:
    return page.locator("link[rel=icon]").get_attribute("href")


def test_a_lost_connection_is_a_state_of_the_page(browser: Browser) -> None:
    """A grey banner since the last word of the agent, in the title and in the icon; counters stop."""
    page = browser.new_page()
    with serving(troubled_model()) as node:
        open_view(page, node.url)
        expect(page).to_have_title("✗ 1 · keyferry on node-1")
        expect(page.locator("#unknown")).to_be_hidden()
    unknown = page.locator("#unknown")
    expect(unknown).to_be_visible()
    expect(page.locator("#unknown-line")).to_have_text(re.compile(r"^Unknown since \d\d:\d\d:\d\d UTC$"))
    expect(page).to_have_title("? keyferry on node-1")
    assert icon_of(page) == "/static/icon-unknown.svg"
    page.clock.install()
    stopped = page.locator("#figures time").text_content()
    page.clock.fast_forward(120_000)
    assert page.locator("#figures time").text_content() == stopped
    # Grey, as nothing is that says something about the agent.
    red, green, blue = page.evaluate(
        "getComputedStyle(document.getElementById('unknown')).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert max(red, green, blue) - min(red, green, blue) < 40
    page.close()


def test_the_title_and_the_icon_of_a_tab_have_the_state(page: Page, node: PageServer) -> None:
    """In a tab in the background, too; and on every view."""
    name = "keyferry on ip-10-0-3-17.eu-west-1.compute.internal"
    usual = node.model
    open_view(page, node.url + "/settings")
    expect(page).to_have_title(f"! 1 · Settings \N{EN DASH} {name}")
    assert icon_of(page) == "/static/icon-warning.svg"
    node.model = replace(usual, health=Health(headline="All is well", since=NOW))
    expect(page).to_have_title(f"Settings \N{EN DASH} {name}")
    assert icon_of(page) == "/static/icon.svg"
    node.model = replace(usual, health=troubled_model().health)
    expect(page).to_have_title(f"✗ 1 · Settings \N{EN DASH} {name}")
    assert icon_of(page) == "/static/icon-bad.svg"
    for state in ("", "-bad", "-warning", "-unknown"):
        assert (
            page.request.get(f"{node.url}/static/icon{state}.svg").headers["content-type"] == "image/svg+xml"
        )


def test_a_tab_that_nobody_sees_goes_on_telling_the_state(browser: Browser) -> None:
    """It has given its stream back, and asks every 20 seconds: the state changes, the agent ends, and is looked at."""
    page = browser.new_page()
    page.clock.install()
    with serving(usual_model()) as node:
        open_view(page, node.url)
        show_tab(page, is_hidden=True)
        node.model = replace(node.model, health=troubled_model().health)
        page.clock.fast_forward(21_000)
        expect(page).to_have_title(re.compile("^✗ "))
        assert icon_of(page) == "/static/icon-bad.svg"
    page.clock.fast_forward(21_000)
    expect(page).to_have_title(re.compile(r"^\? "))
    assert icon_of(page) == "/static/icon-unknown.svg"
    show_tab(page, is_hidden=False)
    expect(page.locator("#unknown")).to_be_visible()
    page.close()


def test_an_unstable_provider_is_told_from_one_that_is_well_and_one_that_fails(page: Page) -> None:
    """In words, by its mark, and by the strip of its last runs."""
    with serving(troubled_model()) as node:
        open_view(page, node.url)
        badges = {
            name: page.locator(f"#card-{name} .badge").text_content()
            for name in ("harbor-credential-provider", "quay-credential-provider", "ecr-credential-provider")
        }
        assert list(badges.values()) == ["failing", "unstable", "well"]
        quay = page.locator("#card-quay-credential-provider")
        expect(quay.locator("svg.bars rect")).to_have_count(12)
        expect(quay.locator("svg.bars rect.failed")).to_have_count(4)
        expect(quay.locator("figcaption")).to_have_text("4 of the last 12 runs failed")
        expect(quay.locator(".trouble")).to_contain_text("i/o timeout")
        lines = page.locator("#health .problem > summary")
        expect(lines).to_have_count(3)
        expect(lines.nth(0)).to_contain_text("401 Unauthorized: password=******** has expired")
        expect(lines.nth(2)).to_contain_text("is unstable: 3 of its last 10 runs failed")
        # The amber of a warning is neither the green of what is well nor the red of what fails.
        colours = page.evaluate(
            """[...document.querySelectorAll('.card')].slice(0, 4)
            .map((each) => getComputedStyle(each).borderTopColor)"""
        )
        assert colours[1] == colours[2]
        assert len(set(colours)) == 3


def test_many_problems_are_folded_and_never_fill_a_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 740})
    with serving(crowded_model()) as node:
        open_view(page, node.url)
        banner = page.locator("#health").bounding_box()
        assert banner is not None
        assert banner["y"] + banner["height"] < 600
        lines = page.locator("#health .problem")
        assert [each.is_visible() for each in lines.all()].count(True) == 3
        commands = page.locator("#health code.copied")
        assert not any(each.is_visible() for each in commands.all())
        lines.nth(1).locator("summary").click()
        expect(commands.nth(1)).to_be_visible()
        page.get_by_text("98 more", exact=True).click()
        expect(lines.nth(90)).to_be_visible()
        # What is unfolded stays so when the page changes.
        node.model = replace(node.model, lives_total=77_777)
        expect(page.locator("#figures")).to_contain_text("77,777")
        expect(lines.nth(90)).to_be_visible()
        expect(commands.nth(1)).to_be_visible()


def test_healthy_providers_fold_into_a_dense_list(page: Page) -> None:
    with serving(crowded_model()) as node:
        open_view(page, node.url)
        expect(page.locator("#cards .card")).to_have_count(8)
        rows = page.locator("#healthy .dense li")
        expect(rows).to_have_count(100)
        expect(rows.first).to_be_hidden()
        page.get_by_text("100 providers that need no attention").click()
        heights = page.evaluate(
            "[...document.querySelectorAll('.dense li')].map((each) => each.getBoundingClientRect().height)"
        )
        assert set(heights) == {36}
        page.get_by_role("link", name="92 more that are not well").click()
        page.wait_for_url("**/providers?state=not-well")
        expect(page.locator("#cards .card")).to_have_count(100)


def test_a_decision_is_one_line_that_begins_with_the_time_of_day(page: Page, page_url: str) -> None:
    """36 pixels; of a long image its end is seen, and of a program its name."""
    page.set_viewport_size({"width": 1280, "height": 900})
    open_view(page, page_url + "/decisions")
    rows = page.locator("#decisions tbody tr")
    assert {round(box["height"]) for row in rows.all() if (box := row.bounding_box())} <= {36, 37}
    first = rows.first
    expect(first.locator("td").first).to_have_text("14:13:16")
    expect(first.get_by_role("rowheader")).to_have_text(
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop/checkout:2026.11.2"
    )
    # Cut in its middle: the end has all the room that it needs.
    widths = first.locator(".middle > span").evaluate_all(
        "(spans) => spans.map((each) => [each.scrollWidth > each.clientWidth, each.textContent])"
    )
    assert widths == [
        [True, "123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop/"],
        [False, "checkout:2026.11.2"],
    ]
    expect(first).to_contain_text("uid 0 · kubelet")
    expect(first).not_to_contain_text("/usr/bin/")


BADGES_CUT = """(badges) => badges.filter((each) => each.checkVisibility()).filter((each) => {
  const room = each.parentElement.getBoundingClientRect();
  const box = each.getBoundingClientRect();
  return each.scrollWidth > each.clientWidth + 1 || box.right > room.right + 1;
}).map((each) => each.textContent)"""


@pytest.mark.parametrize("make", [usual_model, troubled_model])
def test_no_badge_is_cut(page: Page, make: Callable[[], PageModel]) -> None:
    """The longest word of an outcome is "no credential"."""
    with serving(make()) as node:
        for path in ("/", "/decisions", "/providers", "/answers", "/reloads"):
            page.goto(node.url + path)
            for width in set_widths(page, 390, 821, 1024, 1280, 1440, 1920):
                assert page.locator(".badge").evaluate_all(BADGES_CUT) == [], (path, width)
    assert "no credential" in {each.outcome.replace("-", " ") for each in usual_model().decisions}


def test_a_name_that_is_cut_in_its_middle_is_copied_whole(page: Page, page_url: str) -> None:
    open_view(page, page_url + "/decisions")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#decisions tbody th'))")
    copied = page.evaluate(
        """() => {
          const data = new DataTransfer();
          const event = new ClipboardEvent("copy", {clipboardData: data, bubbles: true, cancelable: true});
          document.dispatchEvent(event);
          return data.getData("text/plain");
        }"""
    )
    assert copied == "123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop/checkout:2026.11.2"


def test_a_refusal_leads_to_its_rule_and_says_what_to_add(page: Page) -> None:
    usual = usual_model()
    refused = next(each for each in usual.decisions if each.refusal is not None)
    with serving(usual) as node:
        open_view(page, f"{node.url}/decisions/{refused.identifier}")
        expect(page.locator(".refusal")).to_contain_text("No rule names this user.")
        page.get_by_role("link", name="All rules").click()
        page.wait_for_url("**/settings#access")
        expect(page.locator("#access")).to_contain_text("root and the agent's user")


def test_a_page_whose_cookie_is_no_longer_good_says_what_to_type(browser: Browser) -> None:
    page = browser.new_page()
    with serving(usual_model()) as node:
        open_view(page, node.url + "/answers")
        node.lock()
        expect(page.get_by_role("heading", level=1)).to_have_text("You need a link")
        expect(page.locator("main code")).to_have_text("keyferry agent page")
        node.is_locked = False
        page.reload()
        expect(page.locator("#connection")).to_have_text("Live")
    page.close()


@pytest.mark.parametrize("name", MODELS)
def test_axe_finds_nothing_serious_in_any_view_light_or_dark(name: str, page: Page) -> None:
    with serving(MODELS[name]()) as node:
        for path in VIEWS if name == "usual" else LISTS:
            page.emulate_media(color_scheme="light")
            open_view(page, node.url + path)
            assert check_access(page) == [], path
            # The colours of an empty and of a crowded node are those of a usual one.
            if name == "usual" or path == "/":
                page.emulate_media(color_scheme="dark")
                assert check_access(page, "color-contrast") == [], path


@pytest.mark.parametrize("name", MODELS)
def test_no_view_is_wider_than_a_phone(name: str, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    with serving(MODELS[name]()) as node:
        for path in VIEWS if name == "usual" else LISTS:
            page.goto(node.url + path)
            assert page.evaluate("document.documentElement.scrollWidth") == 360, path


def test_a_phone_has_the_views_on_one_line_and_times_on_one(page: Page, page_url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_view(page, page_url)
    links = [each.bounding_box() for each in page.locator("nav[aria-label=Views] a").all()]
    assert len({box["y"] for box in links if box}) == 1
    heights = page.evaluate(
        "[...document.querySelectorAll('.lives time')].map((each) => each.getClientRects().length)"
    )
    assert set(heights) == {1}


OVERLAPS = """(axes) => axes.flatMap((axis) => {
  const boxes = [...axis.querySelectorAll('text')].filter((each) => each.checkVisibility())
    .map((each) => [each.textContent, each.getBoundingClientRect()]);
  const room = axis.closest('.panel').getBoundingClientRect();
  const outside = boxes.filter(([, box]) => box.left < room.left || box.right > room.right);
  const pairs = boxes.flatMap((one, at) => boxes.slice(at + 1).map((other) => [one, other]));
  const touching = pairs.filter(([[, one], [, other]]) => one.left < other.right + 4 && other.left < one.right + 4);
  return [...outside, ...touching].map(String).concat(boxes.length < 2 ? ['too few'] : []);
})"""


@pytest.mark.parametrize("make", [usual_model, crowded_model, troubled_model])
def test_the_labels_of_a_timeline_never_touch(page: Page, make: Callable[[], PageModel]) -> None:
    """By their boxes; nor do they leave their panel."""
    with serving(make()) as node:
        identifier = node.model.lives[0].identifier
        spans = [f"/answers?span={each}" for each in SPANS] if make is usual_model else []
        for path in ("/", f"/answers/{identifier}", *spans):
            open_view(page, node.url + path)
            for width in set_widths(page, 360, 390, 821, 1024, 1200, 1440, 1920):
                assert page.locator(".axis").evaluate_all(OVERLAPS) == [], (path, width)


def test_cards_beside_each_other_are_aligned(page: Page, page_url: str) -> None:
    """Their numbers and their strips stand on one line, and the badge is below the name."""
    page.set_viewport_size({"width": 1440, "height": 900})
    open_view(page, page_url)
    for part in (".numbers", ".runs"):
        tops = page.evaluate(
            "(part) => [...document.querySelectorAll(`.card ${part}`)].map((each) => each.getBoundingClientRect().top)",
            part,
        )
        assert len({round(top) for top in tops[:4]}) == 1, part
    badges = page.evaluate(
        """[...document.querySelectorAll('.card header')]
        .map((each) => [each.querySelector('h3'), each.querySelector('.badge')])
        .map((pair) => pair.map((each) => each.getBoundingClientRect()))
        .map(([name, badge]) => badge.top >= name.bottom)"""
    )
    assert set(badges) == {True}


def test_axe_would_find_what_is_wrong(page: Page, page_url: str) -> None:
    open_view(page, page_url)
    page.evaluate("document.querySelector('img').removeAttribute('alt')")
    page.evaluate("document.querySelector('#health-line').className = 'number off'")
    page.evaluate(
        "new CSSStyleSheet().replace('.off { color: #f4c0c0 }').then((s) => document.adoptedStyleSheets = [s])"
    )
    assert {each.partition(":")[0] for each in check_access(page)} == {"color-contrast", "image-alt"}


def test_what_can_be_clicked_is_large_enough(page: Page, page_url: str) -> None:
    """24 by 24 pixels, but for links in a line of text."""
    open_view(page, page_url)
    small = page.evaluate(
        """[...document.querySelectorAll('button, input, select, summary, nav a, .pager a')]
        .filter((each) => each.checkVisibility())
        .map((each) => [each.textContent, each.getBoundingClientRect()])
        .filter(([, box]) => box.width < 24 || box.height < 24).map(([text]) => text)"""
    )
    assert small == []


def spoilt(value: object) -> object:
    """The same value with hostile text in every field."""
    if isinstance(value, tuple):
        return tuple(map(spoilt, value))
    if isinstance(value, Value):
        return replace(value, **{name: spoilt(each) for name, each in fields(value).items()})
    return f"{value}{HOSTILE}" if type(value) is str else value


def test_text_of_others_never_becomes_code(page: Page) -> None:
    """Not in a document, and not in a part that is put in place by the script."""
    hostile = spoilt(usual_model())
    assert isinstance(hostile, PageModel)
    with serving(usual_model()) as node:
        for path in (
            "/",
            "/providers/acr-credential-provider",
            "/answers",
            "/decisions",
            VIEWS[8],
            "/reloads",
        ):
            node.model = usual_model()
            open_view(page, node.url + path)
            node.model = hostile
            expect(page.locator("#health-line")).to_contain_text("<script>")
            page.reload()
            expect(page.locator("#health-line")).to_contain_text("<script>")
            assert page.evaluate("window.hacked") is None, path
            assert page.locator("img").count() == 1
