"""Chromium, for the tests of the agent's page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from support.parts import need
from support.plugins import PATIENCE_SECONDS

# Its own is five seconds, which a busy machine takes for one view.
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, started once for a module."""
    path = need("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
