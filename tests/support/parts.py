"""Real programs that tests drive: where one is missing the test skips, and in CI it fails.

What even CI cannot promise is listed here, and nowhere else may a test skip for anything but the platform it is for
(``tests/test_skips.py``).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Rights and traits of the machine, which no installation brings: without them a test skips in CI too.
BEYOND_CI = {
    "groups": "needs a group in this system's own table with no member, or with a few",
    "ipv6": "needs IPv6 on loopback, which containers are often started without",
    "network-namespace": "needs the right to make a network of its own, which sandboxes withhold",
    "ptrace": "needs ptrace, which sandboxes forbid",
    "public-configs": "needs a folder of public configs (KEYFERRY_PUBLIC_CONFIGS), which are other people's texts",
    "root": "needs root, to give files away",
    "seccomp": "needs a system that takes system call filters",
    "text-file-busy": "needs a kernel that does not run files that are open for writing",
}
root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason=BEYOND_CI["root"])
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


def lacking(what: str) -> NoReturn:
    """Skip for want of something that CI cannot promise."""
    pytest.skip(BEYOND_CI[what])
