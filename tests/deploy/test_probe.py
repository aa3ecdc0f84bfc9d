"""The probe of the agent's image: its exit status is the agent's answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROBE = Path(__file__).resolve().parents[2] / "deploy" / "container" / "probe.py"


def probe(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-IS", str(PROBE), *words],
        capture_output=True,
        text=True,
        check=False,
        env={"KEYFERRY_AGENT": str(place)},
    )


@pytest.mark.parametrize(("answer", "status"), [("200 OK", 0), ("503 Service Unavailable", 1), ("", 1)])
def test_the_probe_tells_by_its_status(tmp_path: Path, answer: str, status: int) -> None:
    place = tmp_path / "agent.sock"
    asked = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(f"HTTP/1.1 {answer}\r\n\r\n".encode() if answer else b"")

        thread = threading.Thread(target=serve)
        thread.start()
        done = probe(place, "ready")
        thread.join()
    assert asked[0].startswith(b"GET /v1/ready HTTP/1.1\r\n")
    assert done.returncode == status


def test_the_probe_explains_itself(tmp_path: Path) -> None:
    assert "usage: keyferry-probe live|ready" in probe(tmp_path / "x").stderr
    done = probe(tmp_path / "x", "live")
    assert (done.returncode, "the agent does not answer: no such file" in done.stderr) == (1, True)
