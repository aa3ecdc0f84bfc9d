"""Debug logs go to ``logging`` if it is imported, and cost nothing if it is not."""

from __future__ import annotations

import subprocess
import sys


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
