"""The start-up time of a command, and of a program that imports keyferry."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.measure import (
    CONSOLE_SCRIPT,
    SOURCES,
    Row,
    median,
    quickest_tenth,
    seconds_of,
    skipped,
    take_turns,
)
from bench.plugins import REGISTRY, compile_program, runs_of, write_config, write_script

_IMPORT_ROUNDS = 80
_IMPORT_BAR = 1.0
_TRACE_ROUNDS = 15
_GET_ROUNDS = 15
_GET_BARS = {"json": 3.5, "yaml": 5.0}
_AGENT_ROUNDS = 40
_AGENT_BAR = 6.0
_AGENT_ROW = "warm keyferry get through the agent, YAML config"
_AGENT_START_SECONDS = 20.0
_BARE = (sys.executable, "-I", "-c", "pass")
_IMPORT = f"import sys; sys.path.insert(0, {SOURCES!r}); import keyferry"


def run(folder: str) -> list[Row]:
    """Return rows for ``import keyferry`` and for ``keyferry get``, alone and through the agent."""
    return [*_import_rows(), *_get_rows(folder), _agent_row(folder)]


def _import_rows() -> list[Row]:
    results = take_turns(
        {
            "bare": partial(_milliseconds, _BARE),
            "import": partial(_milliseconds, (sys.executable, "-I", "-c", _IMPORT)),
        },
        _IMPORT_ROUNDS,
    )
    # A difference of a hundredth: medians of a busy machine differ by more than that from each other.
    difference = quickest_tenth(results["import"]) - quickest_tenth(results["bare"])
    traced = median([[_import_time()] for _ in range(_TRACE_ROUNDS)])
    return [
        Row(
            "import keyferry, beyond python3 -I -c pass",
            difference,
            "ms",
            _IMPORT_BAR,
            note=f"quickest tenths of {_IMPORT_ROUNDS} starts each",
        ),
        Row(
            "import keyferry, by -X importtime",
            traced,
            "ms",
            _IMPORT_BAR,
            note=f"median of {_TRACE_ROUNDS} starts",
        ),
    ]


def _get_rows(folder: str) -> list[Row]:
    plugin = os.path.join(folder, "shell")
    kind = "instant plugin" if compile_program("instant", plugin) else "script plugin"
    if kind == "script plugin":
        write_script(plugin)
    commands = {
        name: _get_command(write_config(os.path.join(folder, f"shell.{name}"), "shell", [REGISTRY]), folder)
        for name in ("json", "yaml")
    }
    what = "keyferry get, {} config, " + kind
    works = {name: _works(command) for name, command in commands.items()}
    contestants = {name: partial(_milliseconds, commands[name]) for name in commands if works[name]}
    results = take_turns({"bare": partial(_milliseconds, _BARE), **contestants}, _GET_ROUNDS)
    note = f"medians of {_GET_ROUNDS} starts each"
    return [
        Row(
            what.format(name.upper()),
            median(results[name]),
            "ms",
            median(results["bare"]),
            "python3 -I -c pass",
            _GET_BARS[name],
            note,
        )
        if works[name]
        else skipped(what.format(name.upper()), "not available")
        for name in commands
    ]


def _agent_row(folder: str) -> Row:
    plugin = os.path.join(folder, "cached")
    write_script(plugin)  # its answer is cached for an hour
    config = write_config(os.path.join(folder, "cached.yaml"), "cached", [REGISTRY])
    home = os.path.join(folder, "agent")
    os.mkdir(home, 0o700)
    socket = os.path.join(home, "agent.sock")
    command = (*_get_command(config, folder), "--agent", socket)
    with _serving(socket, config, folder) as is_serving:
        if not is_serving or not _works(command):
            return skipped(_AGENT_ROW, "the agent does not start")
        contestants = {"bare": partial(_milliseconds, _BARE), "get": partial(_milliseconds, command)}
        results = take_turns(contestants, _AGENT_ROUNDS)
    assert runs_of(plugin) == 1, "the agent was not asked"
    return Row(
        _AGENT_ROW,
        quickest_tenth(results["get"]),
        "ms",
        quickest_tenth(results["bare"]),
        "python3 -I -c pass",
        _AGENT_BAR,
        f"quickest tenths of {_AGENT_ROUNDS} starts each",
    )


@contextmanager
def _serving(socket: str, config: str, bin_dir: str) -> Iterator[bool]:
    """Run an agent; tell whether it serves."""
    words = ("agent", "run", "--socket", socket, "--config", config, "--bin-dir", bin_dir)
    command = (sys.executable, "-m", "keyferry", *words)
    with subprocess.Popen(
        command, env=_environment(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as agent:
        until = time.monotonic() + _AGENT_START_SECONDS
        while not os.path.exists(socket) and agent.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        try:
            yield os.path.exists(socket)
        finally:
            agent.kill()


def _get_command(config: str, bin_dir: str) -> tuple[str, ...]:
    options = ("--config", config, "--bin-dir", bin_dir)
    return (*CONSOLE_SCRIPT, "get", f"{REGISTRY}/team/app:v1", *options)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCES}


def _works(command: tuple[str, ...]) -> bool:
    return subprocess.run(command, env=_environment(), capture_output=True, check=False).returncode == 0


def _milliseconds(command: tuple[str, ...]) -> list[float]:
    environment = _environment()
    # Output goes nowhere: a pipe that is read would add this process's own work.
    quiet = partial(
        subprocess.run,
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return [seconds_of(quiet) * 1e3]


def _import_time() -> float:
    """Return the milliseconds of the import with everything it imports, as measured by the interpreter."""
    command = [sys.executable, "-I", "-X", "importtime", "-c", _IMPORT]
    traced = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return sum(int(found) for found in re.findall(r"\|\s*(\d+) \| keyferry$", traced, re.MULTILINE)) / 1e3
