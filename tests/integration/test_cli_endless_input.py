"""A file that never ends is refused with one sentence, before it has filled the memory; so is standard input."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")

ENDLESS = "/dev/zero"
LIMIT = "it has more than 16 MiB, the most that is read"
MEMORY = 1 << 30
CONFIG = ("--config", ENDLESS, "--bin-dir", "/")


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*words: str, stdin: int | None = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    # Programs of other tests that look like a kubelet are not found.
    no_kubelet = {name: os.environ[name] for name in ("KEYFERRY_PROC", "KEYFERRY_HOST_ROOT")}
    return subprocess.run(
        [sys.executable, "-m", "keyferry", *words],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"COLUMNS": "10000", "NO_COLOR": "1", **no_kubelet},
        preexec_fn=limit_memory,
    )


def check(done: subprocess.CompletedProcess[str], where: str, limit: str = LIMIT) -> None:
    assert done.returncode == 3, done.stderr
    assert (
        f"{where}: cannot be read: {limit}" in done.stderr
        or f"{where} cannot be read: {limit}" in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("explain", "x", "-f", ENDLESS), id="explain -f"),
        pytest.param(("explain", "x", "--secret", ENDLESS), id="explain --secret"),
        pytest.param(("explain", "x", "--docker-config", ENDLESS), id="explain --docker-config"),
        pytest.param(
            ("explain", "x", "--service-account", "a/b", "--service-account-token", ENDLESS),
            id="explain --service-account-token",
        ),
        pytest.param(("get", "x", *CONFIG), id="get --config"),
        pytest.param(("explain", "x", *CONFIG), id="explain --config"),
        pytest.param(
            ("plugin", "trace", "x", "--config", ENDLESS, "--", "/bin/true"), id="plugin trace --config"
        ),
        pytest.param(("diff", ENDLESS, ENDLESS), id="diff"),
        pytest.param(("records", "prune", "--images", ENDLESS), id="records prune --images"),
    ],
)
def test_an_option_that_names_a_file(words: tuple[str, ...]) -> None:
    check(run(*words), ENDLESS)


def test_images_of_two_configs(tmp_path: Path) -> None:
    config = str(Node(tmp_path).add("one", ["reg.io"]).config)
    check(run("diff", config, config, "--images", ENDLESS), ENDLESS)


@pytest.fixture
def endless() -> Iterator[int]:
    """Standard input from a program that prints without end."""
    with subprocess.Popen(["yes", "a: b"], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        yield program.stdout.fileno()
        program.kill()


def test_objects_from_standard_input(endless: int) -> None:
    check(run("explain", "x", "-f", "-", stdin=endless), "standard input")


def test_images_from_standard_input(tmp_path: Path, endless: int) -> None:
    config = str(Node(tmp_path).add("one", ["reg.io"]).config)
    check(run("diff", config, config, "--images", "-", stdin=endless), "standard input")


def test_the_images_of_a_node_from_standard_input(endless: int) -> None:
    check(run("records", "prune", "--images", "-", stdin=endless), "standard input")
