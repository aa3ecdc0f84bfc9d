"""Real programs that tests drive: where one is missing the test skips, and in CI it fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

PARTS = Path(__file__).parents[2] / ".cache" / "parts"


def need(program: str) -> str:
    """The path of a program, or a skip that says what is missing; in CI a missing part is a failure."""
    path = shutil.which(program)
    if path is None:
        missing(f"{program} is not installed")
    return path


def need_part(path: str) -> str:
    """The path of something that ``make parts`` puts into a folder of the project, or a skip, or in CI a failure."""
    found = PARTS / path
    if not found.exists():
        missing(f"{path} is not there: 'make parts' installs it")
    return str(found)


def missing(reason: str) -> NoReturn:
    """Skip for want of a part; in CI fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
