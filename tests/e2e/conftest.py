"""Chromium, for the tests of the agent's page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.parts import need


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, started once for a module."""
    path = need("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
