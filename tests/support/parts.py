"""Real programs that tests drive: where one is missing the test skips, and in CI it fails."""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str) -> str:
    """The path of a program, or a skip that says what is missing; in CI a missing part is a failure."""
    path = shutil.which(program)
    if path is None:
        reason = f"{program} is not installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
