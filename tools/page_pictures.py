"""Take the pictures of the agent's page in docs/pictures, of made-up nodes, with Chromium."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.page_models import NOW, crowded_model, empty_model, troubled_model, usual_model  # noqa: E402 - found by the line above
from support.page_server import serving  # noqa: E402 - as above

_USUAL, _NARROW = 1440, 390
_SCREEN = 900


class Picture(NamedTuple):
    """One picture: its name, the node, the path, the width and height (0 for the whole page), and the colours.

    With *is_lost*, the agent is gone.
    """

    name: str
    model: str
    path: str
    width: int
    height: int
    scheme: str = "light"
    is_lost: bool = False


MODELS = {
    "usual": usual_model,
    "empty": empty_model,
    "crowded": crowded_model,
    "troubled": troubled_model,
}
EXPLAIN = "/explain?image=123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop/checkout:2026.11.2&account=shop/checkout"
PICTURES = (
    Picture("page-light", "troubled", "/", _USUAL, 1500),
    Picture("page-dark", "usual", "/", _USUAL, 1200, "dark"),
    Picture("page-narrow", "troubled", "/", _NARROW, 1400),
    Picture("page-lost", "usual", "/", _USUAL, 480, is_lost=True),
    Picture("page-empty", "empty", "/", _USUAL, 900),
    Picture("page-crowded", "crowded", "/", _USUAL, 1400),
    Picture("page-explain", "usual", EXPLAIN, _USUAL, 0),
)


def take(browser: Browser, picture: Picture, folder: Path) -> None:
    """Take one picture, with the node's clock stopped."""
    with serving(MODELS[picture.model]()) as server:
        page = browser.new_page(
            viewport={"width": picture.width, "height": picture.height or _SCREEN},
            color_scheme=picture.scheme,
        )
        page.clock.set_fixed_time(NOW)
        page.goto(server.url + picture.path)
        page.locator("#connection", has_text="Live").wait_for()
        if picture.is_lost:
            server.say_gone()
            page.locator("#unknown").wait_for()
        path = folder / f"{picture.name}.png"
        page.screenshot(path=str(path), full_page=not picture.height)
        page.close()
        print(f"{path.name}: {path.stat().st_size // 1024} KB")


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = ROOT / "docs" / "pictures"
    parser.add_argument(
        "folder", type=Path, nargs="?", default=default, help="where to, if not docs/pictures"
    )
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in PICTURES:
            take(browser, picture, folder)
        browser.close()


if __name__ == "__main__":
    main()
