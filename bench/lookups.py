"""Whole lookups: from the cache, cold through a plugin, and many at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.matching import make_patterns
from bench.measure import Row, best, median, quickest_tenth, seconds_of, skipped, take_turns
from bench.plugins import REGISTRY, compile_program, runs_of, write_config, write_script

from keyferry import Providers, load_providers
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, encode_request
from keyferry.images.provider.plugin import child_environment
from keyferry.invoke.run import run as run_process

_WARM_IMAGES = 1_000
_WARM_ROUNDS = 15
_CACHED_BAR = 40.0
_BLOCKS = 40
_BLOCK_RUNS = 50
# The first runs of a block pay for what its neighbour left in the caches; they are not counted.
_SETTLING_RUNS = 5
_COLD_BAR = 1.6
_OVER_BAR, _OVER_MUSL_BAR = 280, 250
_DESCRIPTORS = {1_000: 1.1, 10_000: 2.0}
_THREADS = 16
_THREAD_RUNS = 10
_CONCURRENT = 1_000


def run_warm(folder: str) -> list[Row]:
    """Return rows for lookups of images that were looked up before."""
    write_script(os.path.join(folder, "warm"))
    images = [f"{REGISTRY}/team/app-{number}:v1" for number in range(_WARM_IMAGES)]
    contestants = {}
    for number in (1, 100):
        patterns = [*make_patterns(number - 1), REGISTRY]
        config = write_config(os.path.join(folder, f"warm-{number}.json"), "warm", patterns)
        providers = load_providers(config, folder)
        _look_up_all(providers, images)
        contestants[f"{number} pattern{'s' if number > 1 else ''}"] = partial(_warm, providers, images)
    results = take_turns(contestants, _WARM_ROUNDS)
    note = f"{_WARM_IMAGES:,} images, best of {_WARM_ROUNDS} rounds"
    return [
        Row(f"cached lookup, {name}", best(figures), "µs", _CACHED_BAR, note=note)
        for name, figures in results.items()
    ]


def run_cold(folder: str) -> list[Row]:
    """Return rows for a lookup through an instant plugin, compared with C code that runs the same plugin."""
    plugin, floor = os.path.join(folder, "instant"), os.path.join(folder, "floor")
    if not (compile_program("instant", plugin) and compile_program("floor", floor)):
        return [skipped("cold lookup through an instant plugin", "skipped: no C compiler")]
    config = write_config(os.path.join(folder, "cold.json"), "instant", [REGISTRY])
    request = encode_request(CredentialProviderRequest(image=f"{REGISTRY}/team/app-10000"))
    with _kubelet_environment():
        with _one_cpu():
            alone = [
                *_measure_cold(plugin, floor, config, folder, request),
                *_measure_musl(floor, folder, request),
                *_measure_descriptors(plugin, floor, config, folder, request),
            ]
        return [*alone, *_measure_threads(config, folder)]


@contextmanager
def _kubelet_environment() -> Iterator[None]:
    """Return as few variables as a kubelet's unit has: passing them is part of a start, for C and for Python."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({"PATH": before.get("PATH", ""), "LANG": "C.UTF-8", "INVOCATION_ID": "0" * 32})
    try:
        yield
    finally:
        os.environ.update(before)


@contextmanager
def _one_cpu() -> Iterator[None]:
    """Keep this process and the programs that it starts on one CPU, for C and for Python.

    A program that is started on an idle virtual CPU waits for the hypervisor to wake that CPU, which takes up to
    1.4 ms: many times what is measured here, and at random.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measure_cold(plugin: str, floor: str, config: str, folder: str, request: bytes) -> list[Row]:
    environment = child_environment((), frozenset())
    results = take_turns(
        {
            "floor": partial(_floor, floor, plugin, request),
            "process": partial(_block, partial(run_process, (plugin,), stdin=request, environ=environment)),
            "lookup": partial(_block, _Fresh(load_providers(config, folder)).look_up),
        },
        _BLOCKS,
    )
    spawn, process, lookup = (median(results[name]) for name in ("floor", "process", "lookup"))
    note = f"median of {_BLOCKS} x {_BLOCK_RUNS} runs, on one CPU"
    return [
        Row("cold lookup through an instant plugin", lookup, "µs", spawn, "C floor", _COLD_BAR, note),
        Row(
            "  in the quickest tenth of the runs",
            quickest_tenth(results["lookup"]),
            "µs",
            quickest_tenth(results["floor"]),
            "C floor",
            note="steadier on a busy machine",
        ),
        Row("  over the floor", lookup - spawn, "µs", _OVER_BAR, note=note),
        Row("  of it, the process alone", process, "µs", spawn, "C floor", note=note),
        Row("  of it, everything else", lookup - process, "µs", spawn, "C floor", note=note),
    ]


def _measure_musl(floor: str, folder: str, request: bytes) -> list[Row]:
    """Return rows for a plugin that starts in almost no time, so that only the caller's time is left."""
    what = "cold lookup through an instant plugin, static with musl, over the floor"
    compiler, plugin = shutil.which("musl-gcc"), os.path.join(folder, "instant-musl")
    if compiler is None:
        return [skipped(what, "skipped: no musl-gcc")]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instant.c")
    subprocess.run([compiler, "-O2", "-static", "-o", plugin, source], check=True)
    config = write_config(os.path.join(folder, "cold-musl.json"), "instant-musl", [REGISTRY])
    results = take_turns(
        {
            "floor": partial(_floor, floor, plugin, request),
            "lookup": partial(_block, _Fresh(load_providers(config, folder)).look_up),
        },
        _BLOCKS,
    )
    over = median(results["lookup"]) - median(results["floor"])
    quickest = quickest_tenth(results["lookup"]) - quickest_tenth(results["floor"])
    note = f"median of {_BLOCKS} x {_BLOCK_RUNS} runs, on one CPU; the floor is {median(results['floor']):.0f} µs"
    return [
        Row(what, over, "µs", _OVER_MUSL_BAR, note=note),
        Row("  with musl, in the quickest tenth of the runs", quickest, "µs", _OVER_MUSL_BAR),
    ]


def _measure_descriptors(plugin: str, floor: str, config: str, folder: str, request: bytes) -> list[Row]:
    """Return rows for a process with many open files, compared with one without, and with C code that has as many.

    The kernel copies the table of open files for each new process and closes the copies, in C as in Python.
    """
    look_up = _Fresh(load_providers(config, folder)).look_up
    contestants: dict[str, Callable[[], list[float]]] = {}
    for number in (0, *_DESCRIPTORS):
        contestants[f"lookup {number}"] = partial(_block_beside, number, look_up)
        contestants[f"floor {number}"] = partial(_floor, floor, plugin, request, number)
    what = "cold lookup, {:,} descriptors open in the host"
    try:
        results = take_turns(contestants, _BLOCKS // 2)
    except (OSError, subprocess.CalledProcessError):
        return [skipped(what.format(max(_DESCRIPTORS)), "skipped: so many may not be opened here")]
    figures = {name: quickest_tenth(rounds) for name, rounds in results.items()}
    note = "the quickest tenth of the runs"
    rows = []
    for number, bar in _DESCRIPTORS.items():
        ours, theirs = figures[f"lookup {number}"], figures[f"floor {number}"]
        rows += [
            Row(what.format(number), ours, "µs", figures["lookup 0"], "none open", bar, note),
            Row(f"  the same in C, {number:,}", theirs, "µs", figures["floor 0"], "none open", note=note),
            Row(f"  beside C with {number:,}", ours, "µs", theirs, "C floor", note=note),
        ]
    return rows


def _block_beside(descriptors: int, look_up: Callable[[], None]) -> list[float]:
    with _many_descriptors(descriptors):
        return _block(look_up)


@contextmanager
def _many_descriptors(number: int) -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while len(held) < number:
            held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _measure_threads(config: str, folder: str) -> list[Row]:
    """Return rows for lookups from many threads, each for its own image."""
    providers = load_providers(config, folder)
    results = take_turns(
        {"one": partial(_together, providers, 1), "many": partial(_together, providers, _THREADS)},
        _BLOCKS // 2,
    )
    what = f"cold lookups, {_THREADS} threads at once, each"
    note = f"median of {_BLOCKS // 2} x {_THREADS * _THREAD_RUNS} runs"
    return [Row(what, median(results["many"]), "µs", median(results["one"]), "one thread", note=note)]


def _together(providers: Providers, threads: int) -> list[float]:
    """Return the microseconds per lookup of *threads* that start at the same time."""
    gate = threading.Barrier(threads + 1)

    def ask(name: int) -> None:
        gate.wait()
        for number in range(_THREAD_RUNS):
            providers.lookup(f"{REGISTRY}/team/app-{name}-{number}")

    workers = [threading.Thread(target=ask, args=(name,)) for name in range(threads)]
    for worker in workers:
        worker.start()
    gate.wait()
    before = time.perf_counter_ns()
    for worker in workers:
        worker.join()
    return [(time.perf_counter_ns() - before) / 1e3 / (threads * _THREAD_RUNS)]


def run_concurrent(folder: str) -> list[Row]:
    """Return rows for a thousand threads that look up different images of one registry at the same time."""
    plugin = os.path.join(folder, "concurrent")
    write_script(plugin, pause_seconds=0.2)
    config = write_config(os.path.join(folder, "concurrent.json"), "concurrent", [REGISTRY])
    providers = load_providers(config, folder)
    gate = threading.Barrier(_CONCURRENT)
    answered: list[bool] = []

    def ask(number: int) -> None:
        gate.wait()
        answered.append(bool(providers.lookup(f"{REGISTRY}/team/app-{number}").credentials))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(_CONCURRENT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    what = f"{_CONCURRENT:,} concurrent first lookups of one registry"
    if sum(answered) != _CONCURRENT:
        return [skipped(what, f"only {sum(answered)} got credentials")]
    return [Row(what, runs_of(plugin), "plugin runs", 1, note="1 round")]


class _Fresh:
    """A callable that looks up a new image at every call."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._number = 10_000

    def look_up(self) -> None:
        self._number += 1
        self._providers.lookup(f"{REGISTRY}/team/app-{self._number}")


def _look_up_all(providers: Providers, images: list[str]) -> None:
    lookup = providers.lookup
    for image in images:
        lookup(image)


def _warm(providers: Providers, images: list[str]) -> list[float]:
    return [seconds_of(lambda: _look_up_all(providers, images)) / len(images) * 1e6]


def _floor(floor: str, plugin: str, request: bytes, descriptors: int = 0) -> list[float]:
    """Return the microseconds of each run of a block, in C, with so many descriptors open."""
    command = [floor, plugin, str(_BLOCK_RUNS), str(descriptors)]
    printed = subprocess.run(command, input=request, capture_output=True, check=True)
    return [int(nanoseconds) / 1e3 for nanoseconds in printed.stdout.split()][_SETTLING_RUNS:]


def _block(ask: Callable[[], object]) -> list[float]:
    """Return the microseconds of each run of a block, in Python."""
    figures = []
    for _ in range(_BLOCK_RUNS):
        before = time.perf_counter_ns()
        ask()
        figures.append((time.perf_counter_ns() - before) / 1e3)
    return figures[_SETTLING_RUNS:]
