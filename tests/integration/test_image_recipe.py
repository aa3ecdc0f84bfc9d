"""The two recipes of the agent's image agree, and what they pin is what keyferry needs."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from support.agent_image import RECIPE, ROOT, SETTINGS

CONTAINERFILE = (RECIPE / "Containerfile").read_text()
LINES = CONTAINERFILE.replace("\\\n", " ").splitlines()
PROBE = RECIPE / "probe.py"
REQUIREMENTS = (RECIPE / "requirements.txt").read_text()


def arguments(instruction: str) -> list[str]:
    """What the last stage of the Containerfile says by an instruction."""
    last = max(at for at, line in enumerate(LINES) if line.startswith("FROM "))
    return [line.partition(" ")[2] for line in LINES[last:] if line.startswith(f"{instruction} ")]


def pairs(instruction: str) -> dict[str, str]:
    words = [shlex.split(each) for each in arguments(instruction)]
    return dict(word.split("=", 1) for (word,) in words)


def test_the_containerfile_has_the_settings_of_the_other_recipe() -> None:
    owner = f"{SETTINGS['user']}:{SETTINGS['group']}"
    assert arguments("USER") == [owner]
    assert [json.loads(each) for each in arguments("ENTRYPOINT")] == [SETTINGS["entrypoint"]]
    assert [json.loads(each) for each in arguments("CMD")] == [SETTINGS["command"]]
    assert arguments("WORKDIR") == [SETTINGS["workingDirectory"]]
    assert (pairs("ENV"), pairs("LABEL")) == (SETTINGS["environment"], SETTINGS["labels"])
    assert arguments("COPY") == [
        f"--from=build --chown=0:0 /out{SETTINGS['prefix']} {SETTINGS['prefix']}",
        f"--from=build --chown={owner} /socket {SETTINGS['socketFolder']}",
    ]
    (healthcheck,) = arguments("HEALTHCHECK")
    seconds = SETTINGS["healthcheckSeconds"]
    flags, _, command = healthcheck.partition(" CMD ")
    assert json.loads(command) == SETTINGS["healthcheck"]
    assert flags.split() == [
        f"--interval={seconds['interval']}s",
        f"--timeout={seconds['timeout']}s",
        f"--start-period={seconds['start']}s",
    ]


def test_all_that_the_containerfile_copies_is_let_through() -> None:
    ignore = (RECIPE / "Containerfile.dockerignore").read_text().splitlines()
    assert ignore[0] == "*"
    for line in ignore[1:]:
        assert (ROOT / line.removeprefix("!")).exists()


def test_every_dependency_of_the_agent_is_pinned_by_hashes() -> None:
    """A new dependency has to be pinned; the first lines of the file say how."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {
        re.split(r"[<>=\[ ]", each)[0].lower()
        for each in (*project["dependencies"], *project["optional-dependencies"]["agent"])
    }
    pinned = set(re.findall(r"^([a-z0-9-]+)==\S+ \\\n +--hash=sha256:", REQUIREMENTS, re.MULTILINE))
    assert needed <= pinned
    assert "pip-compile --extra=agent --generate-hashes" in REQUIREMENTS
    assert "://" not in REQUIREMENTS


def test_the_page_about_the_image_says_what_the_recipes_say() -> None:
    page = (ROOT / "docs" / "container.md").read_text()
    for value in (SETTINGS["user"], SETTINGS["prefix"], SETTINGS["socketFolder"], SETTINGS["sbom"]):
        assert f"`{value}`" in page
    for name, value in SETTINGS["environment"].items():
        assert f"`{name}={value}`" in page


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
