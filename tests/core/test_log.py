"""Debug logs go to ``logging`` if it is imported, and cost nothing if it is not."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from keyferry._core.log import log_debug


def test_a_line_is_of_its_stage(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "keyferry"):
        log_debug("images", "%s: %d providers match", "reg.io/app", 2)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("keyferry.images", logging.DEBUG)
    assert record.getMessage() == "reg.io/app: 2 providers match"


def test_nothing_is_imported_and_nothing_is_written_by_default() -> None:
    program = """
import sys
from keyferry._core.log import log_debug
log_debug("images", "lost")
assert "logging" not in sys.modules
import logging
log_debug("images", "below the level")
logging.basicConfig(level=logging.DEBUG)
log_debug("images", "seen")
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["DEBUG:keyferry.images:seen"]
