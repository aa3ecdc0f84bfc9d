"""The unit files are what systemd understands, and agree with the agent; what needs a running systemd is not tested."""

import shutil
import subprocess
import sys
from pathlib import Path

from keyferry.agent.settings import default_socket
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
