"""The soak itself, for a few seconds: every kind of work does its steps; its figures are no news for the docs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.parts import need

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads figures from /proc")

ROOT = Path(__file__).resolve().parents[2]


def test_a_short_soak(tmp_path: Path) -> None:
    for program in ("docker-registry", "skopeo"):
        need(program)
    page = Path(shutil.copy(ROOT / "docs" / "figures.md", tmp_path))
    before = page.read_text()
    words = ["--minutes", "0.05", "--folder", str(tmp_path / "out"), "--docs", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "soak.py"), *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "out" / "samples.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["operations"] > 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["problems"] == []
    assert summary["counts"]
    assert all(count["steps"] for count in summary["counts"].values())
    assert page.read_text() == before
    assert "It ran for 3 seconds." in (tmp_path / "out" / "soak.md").read_text()
