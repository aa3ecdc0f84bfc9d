"""The pictures of the docs in Chromium: no text leaves its box, and on a phone they are readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
DIAGRAMS = ("diagram", "decision", "credential-life", "threats")
# The texts with less than 10 pixels to the right edge of the smallest box that they begin in.
TIGHT = """() => {
  const boxes = [...document.querySelectorAll('rect:not(.z)')].map(each => each.getBBox());
  const room = text => {
    const at = text.getBBox(), middle = at.y + at.height / 2;
    const around = boxes.filter(box => box.x <= at.x && at.x < box.x + box.width
      && box.y < middle && middle < box.y + box.height);
    const right = Math.min(...around.map(box => box.x + box.width));
    return right - at.x - at.width;
  };
  return [...document.querySelectorAll('text')].filter(each => room(each) < 10).map(each => each.textContent);
}"""
PHONE = """\
<!doctype html><meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{css}">
<article class="md-typeset"><p><img alt="" src="{folder}/terminal.svg"></p>
<p><img alt="" src="{folder}/diagram.svg"></p><p><img alt="" src="{folder}/decision.svg"></p></article>
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page as wide as a phone."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_text_of_a_diagram_is_inside_its_box(page: Page, name: str) -> None:
    page.goto((ROOT / "docs" / "pictures" / f"{name}.svg").as_uri())
    assert page.evaluate(TIGHT) == []


def test_wide_pictures_scroll_by_themselves_on_a_phone(page: Page, tmp_path: Path) -> None:
    """They have their own size, and the page around them stays as wide as the screen."""
    docs = ROOT / "docs"
    text = PHONE.format(css=(docs / "site" / "extra.css").as_uri(), folder=(docs / "pictures").as_uri())
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    sizes = "() => [...document.images].map(each => [each.clientWidth === each.naturalWidth, each.clientWidth > 390])"
    assert page.evaluate(sizes)[:2] == [[True, True], [True, True]]
    assert page.evaluate("() => document.images[2].clientWidth <= 390")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
