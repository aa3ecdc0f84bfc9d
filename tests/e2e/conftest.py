"""Programs that start once for many tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from support.agent_image import ImageRunner, agent_image
from support.aws_moto import Moto, running_moto
from support.containerd import running_containerd
from support.fake_cloud import Authority
from support.oidc_server import OidcServer
from support.oidc_server import running as running_oidc
from support.parts import need
from support.plugins import PATIENCE_SECONDS

# Its own is five seconds, which a busy machine takes for one view.
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser, with a home of its own.

    Playwright's event loop runs in this thread until the end, so tests of other modules could not run one of their own.
    """
    path = need("chromium")
    home = str(tmp_path_factory.mktemp("chromium"))
    env: dict[str, str | float | bool] = {
        **os.environ,
        **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), home),
    }
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=env)
        yield found
        found.close()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    """Moto's server and proxy."""
    with running_moto(tmp_path_factory.mktemp("moto")) as running:
        yield running


@pytest.fixture(scope="session")
def runner() -> Iterator[ImageRunner]:
    """Containers of the agent's image, in a containerd of their own.

    Its folder is short, and every user can enter it, unlike those of pytest.
    """
    with running_containerd() as containerd:
        containerd.folder.chmod(0o755)
        yield ImageRunner(containerd, agent_image())


@pytest.fixture(scope="session")
def oidc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcServer]:
    """An OpenID Connect server."""
    with running_oidc(Authority(tmp_path_factory.mktemp("oidc"))) as found:
        yield found
