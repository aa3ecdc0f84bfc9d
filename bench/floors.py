"""The cost of the system and of the interpreter alone, with which other rows are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from bench.measure import Row, median, seconds_of, skipped, take_turns
from bench.plugins import compile_program

_BLOCKS = 20
_BLOCK_RUNS = 50
# The first runs of a block pay for what its neighbour left in the caches; they are not counted.
_SETTLING_RUNS = 5
_STARTS = 20
_LIBRARIES = ("glibc", "musl")
_OPTIONS = {"python3 -c pass": (), "python3 -I -c pass": ("-I",), "python3 -I -S -c pass": ("-I", "-S")}


def run(folder: str) -> list[Row]:
    """Return rows for C with an instant plugin, by the plugin's C library, and for bare starts of the interpreter."""
    return [*_plugin_rows(folder), *_start_rows()]


def _plugin_rows(folder: str) -> list[Row]:
    what = "C asks an instant static plugin, {}"
    floor = os.path.join(folder, "floors-floor")
    if not compile_program("floor", floor):
        return [skipped(what.format(name), "no C compiler") for name in _LIBRARIES]
    plugins = {name: os.path.join(folder, f"floors-{name}") for name in _LIBRARIES}
    there = {name: compile_program("instant", path, libc=name) for name, path in plugins.items()}
    contestants = {name: partial(_ask, floor, plugins[name]) for name in plugins if there[name]}
    results = take_turns(contestants, _BLOCKS)
    note = f"median of {_BLOCKS} x {_BLOCK_RUNS} runs"
    return [
        Row(what.format(name), median(results[name]), "µs", note=note)
        if there[name]
        else skipped(what.format(name), "no compiler for it")
        for name in _LIBRARIES
    ]


def _ask(floor: str, plugin: str) -> list[float]:
    """Return the microseconds of each run of a block."""
    command = [floor, plugin, str(_BLOCK_RUNS)]
    printed = subprocess.run(command, input=b"{}", capture_output=True, check=True).stdout
    return [int(nanoseconds) / 1e3 for nanoseconds in printed.split()][_SETTLING_RUNS:]


def _start_rows() -> list[Row]:
    results = take_turns({name: partial(_start, options) for name, options in _OPTIONS.items()}, _STARTS)
    return [Row(name, median(results[name]), "ms", note=f"median of {_STARTS} starts") for name in _OPTIONS]


def _start(options: tuple[str, ...]) -> list[float]:
    quiet = partial(subprocess.run, [sys.executable, *options, "-c", "pass"], check=True)
    return [seconds_of(quiet) * 1e3]
