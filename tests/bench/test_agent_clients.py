"""The clients of the load, as processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from bench.agent_clients import Outcome, Task
from bench.agent_place import image_of

from support.plugins import PATIENCE_SECONDS, wait_until, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the load is for Unix sockets")
ROOT = Path(__file__).resolve().parents[2]


def test_clients_ask_until_what_happens_meanwhile_is_over(tmp_path: Path) -> None:
    """However long that takes: the seconds are the least."""
    runs = tmp_path / "runs"
    answer = f'"password":"for {image_of(0)}"'
    shim = write_executable(tmp_path / "shim", f"#!/bin/sh\necho >> {runs}\necho '{answer}'\n")
    task = Task("shim", "", "", "", seconds=0.1, rate=20.0, shim=str(shim))
    with subprocess.Popen(
        [sys.executable, "-m", "bench.agent_clients", json.dumps(asdict(task))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"%f\n" % time.perf_counter())
        process.stdin.flush()
        wait_until(lambda: runs.exists() and runs.read_text().count("\n") > 10, "requests after the seconds")
        process.stdin.close()
        outcome = Outcome(**json.loads(process.stdout.read()))
        assert process.wait(PATIENCE_SECONDS) == 0
    assert outcome.errors == []
    assert len(outcome.late) == runs.read_text().count("\n")
