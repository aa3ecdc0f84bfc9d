"""The real parts of AWS that are available: moto's server and proxy, botocore, the AWS CLI, Debian's ECR helper."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.parts import need

PARTS = Path(__file__).parents[2] / ".cache" / "parts" / "moto" / "bin"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Moto:
    """A running moto: the server's URL, the proxy's URL, and the authority of the proxy's certificates."""

    server: str
    proxy: str
    authority: str


def part(name: str) -> str:
    """Return the path of a program of moto's environment; skip the test if it is missing."""
    return need(str(PARTS / name))


@contextmanager
def running_moto(folder: Path) -> Iterator[Moto]:
    """Start server and proxy, and end both afterwards."""
    with _started(folder, "moto_server") as server, _started(folder, "moto_proxy") as proxy:
        (authority,) = PARTS.parent.glob("lib/python*/site-packages/moto/moto_proxy/ca.crt")
        yield Moto(f"http://127.0.0.1:{server}", f"http://127.0.0.1:{proxy}", str(authority))


def run_python(script: str, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Run a script with moto's interpreter, which has botocore; return its output."""
    return run_part("python", "-c", script, *args, env=env)


def run_part(name: str, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Run a program of moto's environment; return its output."""
    done = subprocess.run(
        [part(name), *args],
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
            **(env or {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _started(folder: Path, name: str) -> Iterator[int]:
    """Start a server at a free port, which it names in its log."""
    log = folder / f"{name}.log"
    command = [part(name), "-H", "127.0.0.1", "-p", "0"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, stdout=stream, stderr=stream, cwd=folder, env=env) as process,
    ):
        try:
            yield _port_in(log, process)
        finally:
            process.terminate()


def _port_in(log: Path, process: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + PATIENCE_SECONDS
    while (found := re.search(r"127\.0\.0\.1:(\d+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    return int(found[1])
