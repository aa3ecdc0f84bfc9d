"""What to type after a plugin has failed."""

from __future__ import annotations

import pytest

from keyferry.errors import (
    KeyferryError,
    PluginExitError,
    PluginNotFoundError,
    PluginProtocolError,
    PolicyError,
)
from keyferry.explain.cures import plugin_command

TRACE = "keyferry plugin trace 'a bin/p' reg.io/a --config c.yaml -o text"


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (PluginExitError("p", 3), TRACE),
        (PluginProtocolError("p", "not JSON"), TRACE),
        (PluginNotFoundError("p", "missing"), "keyferry lint c.yaml --bin-dir 'a bin'"),
        (PolicyError("p", "denied"), ""),
    ],
)
def test_the_command_fits_the_failure(error: KeyferryError, command: str) -> None:
    assert plugin_command(error, "p", "reg.io/a", "c.yaml", "a bin") == command
    assert plugin_command(error, "p", "reg.io/a", "c.yaml", "") == ""
