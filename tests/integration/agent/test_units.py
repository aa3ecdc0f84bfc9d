"""The unit files are what systemd understands, and agree with the agent; what needs a running systemd is not tested."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from keyferry.agent.settings import DEFAULTS, default_socket
from support.parts import need

UNITS = Path(__file__).resolve().parents[3] / "deploy" / "systemd"
SERVICE, SOCKET = "keyferry-agent.service", "keyferry-agent.socket"


def read_unit(name: str) -> dict[str, str]:
    """The settings of a unit; none of them is given twice."""
    found: dict[str, str] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            assert key not in found
            found[key] = value
    return found


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """With a program that exists; the place of the real one is the installer's business."""
    for name in (SERVICE, SOCKET):
        shutil.copy(UNITS / name, tmp_path)
    service = tmp_path / SERVICE
    service.write_text(service.read_text().replace("/usr/bin/keyferry", sys.executable))
    command = [need("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no"]
    done = subprocess.run(
        [*command, str(service), str(tmp_path / SOCKET)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_units_and_the_agent_agree() -> None:
    service, listening = read_unit(SERVICE), read_unit(SOCKET)
    assert listening["ListenStream"] == default_socket({}, 0)
    assert (listening["SocketMode"], listening["DirectoryMode"]) == ("0660", "0750")
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) > 10  # the agent's own limit
    assert service["CapabilityBoundingSet"] == ""


def test_the_memory_of_the_unit_is_enough_for_two_providers_with_full_caches() -> None:
    """By the table of the docs, whose figures are those of the code."""
    page = (UNITS.parents[1] / "docs" / "agent.md").read_text(encoding="utf-8")
    table = page.partition("## Memory")[2].partition("## ")[0]
    cache_bytes = int(DEFAULTS["cacheBytes"])
    assert f"`cacheBytes` ({cache_bytes >> 20} MiB by default)" in table
    limit = read_unit(SERVICE)["MemoryMax"]
    assert f"`MemoryMax={limit}`" in table
    assert 2 * 2 * cache_bytes + (100 << 20) <= int(limit.removesuffix("M")) << 20
