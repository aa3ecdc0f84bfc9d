"""A system that starts no more programs: a clear error, answers that are cached go on, and nothing is left of it."""

from __future__ import annotations

import json
import os
import sys

import pytest

from support.fault_table import Tried
from support.plugins import Node, print_answer, run_script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits processes as Linux does")

# Limits of processes do not hold for root.
NO_PROCESS = """
import json, os, resource
from keyferry import load_providers
providers = load_providers({config!r}, {bin_dir!r})
if os.geteuid() == 0:
    os.setuid(65534)
before = len(os.listdir("/proc/self/fd"))
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
told = [providers.lookup("reg.example/app").credentials[0].password]
resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
told.append(providers.lookup("reg.example/app").credentials[0].password)
(failure,) = providers.lookup("other.example/app").failures
told += [type(failure.error).__name__, str(failure.error)]
resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
told.append(providers.lookup("other.example/app").credentials[0].password)
told.append(len(os.listdir("/proc/self/fd")) - before)
print(json.dumps(told))
"""


def test_no_process_can_be_started(node: Node, tried: Tried) -> None:
    """Users that may start no process get EAGAIN."""
    both = {"reg.example": ("user", "pass"), "other.example": ("user", "pass")}
    node.shell(print_answer(auth=both))
    node.provider(matchImages=["reg.example", "other.example"])
    node.load()
    for folder in (node.root, *node.root.parents):
        if folder.stat().st_uid == os.getuid() and folder != folder.parent and not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o011)
    done = run_script(NO_PROCESS.format(config=str(node.config), bin_dir=str(node.bin_dir)))
    assert done.returncode == 0, done.stderr
    first, cached, kind, text, again, left = json.loads(done.stdout)
    assert (first, cached, again, left) == ("pass", "pass", "pass", 0)
    assert kind == "PluginStartError"
    assert "'plugin'" in text
    assert "resource temporarily unavailable" in text.lower()
    tried(
        "no process can be started (EAGAIN)",
        "a lookup",
        "cached answers are served; else an error that names the plugin; the next lookup succeeds",
    )
