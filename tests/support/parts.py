"""Real programs that tests run: a test is skipped if one is missing, and fails in CI.

Requirements that even CI cannot guarantee are listed here. No test may be skipped for any other reason, except for the
platform it is for (``tests/test_skips.py``).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Rights and traits of the machine, which no installation brings: without them a test skips in CI too.
BEYOND_CI = {
    "ipv6": "needs IPv6 on loopback, which containers are often started without",
    "kubectl-completion": "needs a kubectl that completes plugins, of 1.26 or later: Debian's is, from 13 on",
    "mount-namespace": "needs the right to mount a file system for itself, which sandboxes withhold",
    "network-namespace": "needs the right to make a network of its own, which sandboxes withhold",
    "packet-filter": "needs the right to filter the packets of a connection, which some systems give to root alone",
    "ptrace": "needs ptrace, which sandboxes forbid",
    "public-configs": "needs a folder of public configs (KEYFERRY_PUBLIC_CONFIGS), which are other people's texts",
    "root": "needs root, to give files away: run make test as root",
    "seccomp": "needs a system that takes system call filters",
    "systemd": "needs control groups (version 2) that root may change, to start a systemd of its own in one",
    "text-file-busy": "needs a kernel that does not run files that are open for writing",
}
root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason=BEYOND_CI["root"])
PARTS = Path(__file__).parents[2] / ".cache" / "parts"


def need(program: str) -> str:
    """Return the path of a program; skip the test if it is missing, and fail in CI."""
    path = shutil.which(program)
    if path is None:
        missing(f"{program} is not installed: 'make parts' installs it, as root on Debian")
    return path


def need_part(path: str) -> str:
    """Return the path of a part installed by ``make parts``; skip the test if it is missing, and fail in CI."""
    found = PARTS / path
    if not found.exists():
        missing(f"{path} is not installed: 'make parts' installs it")
    return str(found)


def missing(reason: str) -> NoReturn:
    """Skip because a part is missing; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def lacking(what: str) -> NoReturn:
    """Skip because of a requirement that CI cannot guarantee."""
    pytest.skip(BEYOND_CI[what])
