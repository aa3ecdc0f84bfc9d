"""``keyferry pull`` as a person sees it: on a real terminal, from a real registry over a slow road."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.images import build, noise, push
from support.plugins import wait_until
from support.pulling import write_secret
from support.registry import Registry, basic, running
from support.screen import WatchedTerminal
from support.slow_road import SlowRoad, slow_road

USER, PASSWORD = "alice", "kf-marked-word"
IMAGE = build(noise(700_000), noise(600_000), noise(500_000))
OTHER = build(noise(300_000))
SLOW = 150_000  # bytes per second of one connection
TOTAL = sum(map(len, IMAGE.blobs.values()))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/one", "v1", IMAGE, basic(USER, PASSWORD))
        push(server, "team/two", "v1", OTHER, basic(USER, PASSWORD))
        yield server


@pytest.fixture
def road(registry: Registry) -> Iterator[SlowRoad]:
    with slow_road(registry.port, SLOW) as found:
        yield found


def words(road: SlowRoad, folder: Path, *names: str) -> list[str]:
    images = [f"{road.host}/team/{name}:v1" for name in names or ("one",)]
    secret = write_secret(folder, "regcred", road.host, USER, PASSWORD)
    return ["pull", *images, "--to", str(folder / "layout"), "--secret", secret, "--platform", "linux/amd64"]


def shows_time_left(text: str) -> bool:
    return " left" in text


def lines_of(text: str) -> list[str]:
    """Every version of every line that was drawn, as it was drawn."""
    return [line for line in re.split(r"[\r\n]+|\x1b\[[0-9]*[AJK]", text) if line]


@pytest.mark.parametrize("columns", [38, 80])
def test_the_bar_fits_the_terminal_and_is_gone_at_the_end(
    road: SlowRoad, tmp_path: Path, columns: int
) -> None:
    """Layers, bytes, speed and the time left, in as far as there is room; nothing is drawn into the last column."""
    with WatchedTerminal(*words(road, tmp_path), columns=columns) as session:
        session.wait_for(shows_time_left)
        road.bytes_per_second = 0
        assert session.finish().status == 0, session.raw
        rows = session.rows
    drawn = [line for line in lines_of(session.raw) if " % " in f"{line} "]
    assert drawn
    assert max(map(len, drawn)) < columns
    full = next(line for line in reversed(drawn) if " left" in line)
    assert re.match(r"\[#*\.*\]  ?\d+ %  (\d/3( layers)?  )?\d\.\d/1\.7 MiB", full), full
    assert (("/3" in full), "iB/s" in full) == (columns > 38,) * 2, full
    # No time left is claimed before a speed is known.
    assert " left" not in drawn[0]
    assert not [row for row in rows if " % " in row or "[#" in row]
    assert [row for row in rows if "pulled" in row]


def test_a_terminal_that_becomes_narrower_or_wider_keeps_one_bar(road: SlowRoad, tmp_path: Path) -> None:
    """Each line fits the width of its moment, and lines that the terminal has broken are taken away."""
    with WatchedTerminal(*words(road, tmp_path), columns=100) as session:
        session.wait_for(shows_time_left)
        session.resize(50)
        before = len(session.raw)
        session.wait_for(lambda text: text.count("\x1b[J", before) > 5)
        narrow = lines_of(session.raw[before:].split("\x1b[2A", 1)[1])
        session.resize(120)
        road.bytes_per_second = 0
        assert session.finish().status == 0, session.raw
    # The bar was one row and is two in the narrow terminal, so the cursor goes up by one more.
    assert "\r\x1b[2A" in session.raw[before:]
    assert max(len(line) for line in narrow if " % " in line) < 50


def test_several_pulls_have_one_line_each(road: SlowRoad, tmp_path: Path) -> None:
    """Redrawn in place, with the end of the name, which tells the images apart."""
    options = [*words(road, tmp_path, "one", "two"), "--parallel", "2"]

    def shows_both(text: str) -> bool:
        return any(
            re.search(r"one:v1  \[.*%.*\x1b\[K\r?\n.*two:v1  \[.*%", part) for part in text.split("\x1b[J")
        )

    with WatchedTerminal(*options, columns=80) as session:
        session.wait_for(shows_both)
        rows = [row for row in session.rows if " % " in row]
        road.bytes_per_second = 0
        assert session.finish().status == 0, session.raw
        after = session.rows
    assert len(rows) == 2, rows
    assert all(re.match(r".*/team/(one|two):v1  \[", row) for row in rows), rows
    assert not [row for row in after if " % " in row]
    assert len([row for row in after if "pulled" in row]) == 2


def kept_bytes(folder: Path) -> int:
    """The bytes of the image that are in the layout, whole layers and parts of them."""
    files = [folder / "layout" / ".keyferry" / name.replace(":", "-") for name in IMAGE.blobs]
    files += [folder / "layout" / "blobs" / "sha256" / name[7:] for name in IMAGE.blobs]
    return sum(map(size_of, files))


def size_of(path: Path) -> int:
    """The size of a file, 0 if it is not there: a pull that goes on may rename it at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def interrupt(session: WatchedTerminal) -> str:
    session.wait_for(shows_time_left)
    session.type("\x03")
    assert session.finish().status == 130, session.raw
    return "\n".join(session.rows)


def test_an_interrupted_pull_says_what_is_kept_and_goes_on_from_there(road: SlowRoad, tmp_path: Path) -> None:
    """The second run says so as well, and the registry is asked for the rest alone."""
    options = words(road, tmp_path)
    with WatchedTerminal(*options, columns=200) as session:
        shown = interrupt(session)
    kept = kept_bytes(tmp_path)
    assert 0 < kept < TOTAL
    amount = f"{kept / (1 << 20):.1f} of {TOTAL / (1 << 20):.1f} MiB"
    assert f"keyferry: {road.host}/team/one:v1: {amount} are kept in {tmp_path / 'layout'}" in shown
    assert "keyferry: the same command goes on from there\nkeyferry: interrupted" in shown
    assert "Traceback" not in shown
    road.bytes_per_second = 0
    wait_until(lambda: road.is_idle, "the end of the first run's connections")
    before = road.received
    with WatchedTerminal(*options, columns=200) as session:
        assert session.finish().status == 0, session.raw
        again = "\n".join(session.rows)
    assert f"{road.host}/team/one:v1: goes on from the {amount} that are already there" in again
    headers = 20_000  # of the responses, and the manifest
    assert TOTAL - kept <= road.received - before < TOTAL - kept + headers
    for name, blob in IMAGE.blobs.items():
        assert (tmp_path / "layout" / "blobs" / "sha256" / name[7:]).read_bytes() == blob


def test_parallel_pulls_that_are_interrupted_say_it_for_each_image(road: SlowRoad, tmp_path: Path) -> None:
    with WatchedTerminal(*words(road, tmp_path, "one", "two"), "--parallel", "2", columns=200) as session:
        shown = interrupt(session)
    for name in ("one", "two"):
        assert re.search(rf"team/{name}:v1: \d+\.\d of \d+\.\d [KM]iB are kept in ", shown), shown
    assert shown.count("the same command goes on from there") == 1


def test_without_a_terminal_there_are_lines_for_a_log_alone(road: SlowRoad, tmp_path: Path) -> None:
    """Where it starts, where it goes on, and what an interrupt has kept; nothing is redrawn."""
    command = [sys.executable, "-m", "keyferry", *words(road, tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: kept_bytes(tmp_path) > 100_000, "some bytes")
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 130
    image = f"{road.host}/team/one:v1"
    assert [line.split(": ")[-1].split(" in ")[0] for line in log.splitlines()[-4:]] == [
        f"pulling {image}",
        f"{kept_bytes(tmp_path) / (1 << 20):.1f} of {TOTAL / (1 << 20):.1f} MiB are kept",
        "the same command goes on from there",
        "interrupted",
    ]
    road.bytes_per_second = 0
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"][0]["result"] == "pulled"
    said = [line for line in done.stderr.splitlines() if not line.startswith("keyferry: ")]
    assert len(said) == 2, said
    assert said[0] == f"pulling {image}"
    assert "goes on from the" in said[1]
    assert "\r" not in log + done.stderr
    assert "\x1b" not in log + done.stderr


def test_a_dumb_terminal_gets_plain_lines(road: SlowRoad, tmp_path: Path) -> None:
    road.bytes_per_second = 0
    with WatchedTerminal(*words(road, tmp_path), TERM="dumb") as session:
        assert session.finish().status == 0
    assert "\x1b" not in session.raw
    assert f"pulling {road.host}/team/one:v1" in session.raw.splitlines()
