"""Lookups in one process: matching, answers from the cache, cold ones through a plugin, and many at once."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from bench.measure import Row, rounds_of, seconds_of, take_turns
from bench.plugins import REGISTRY, compile_program, runs_of, write_config, write_providers, write_script

from keyferry import Providers, load_providers
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, encode_request
from keyferry.images.match import PatternIndex

_ROUNDS = 7
_MATCHED_IMAGES = 10_000
# What Go's matching takes for each number of patterns, and its whole lookup of a cached answer; in microseconds.
_GO_MATCH = {1: 1.2, 10: 15.0, 100: 165.0, 1_000: 950.0}
_GO_CACHED = {1: 9.0, 100: 145.0}
_MATCH_BAR = 3.0
_CACHED_IMAGES = 2_000
_CACHED_BAR = 40.0
_IN_TURN = (1_000, 100_000)
_IN_TURN_BAR = 1.5
_BLOCKS, _BLOCK_RUNS = 30, 50
# The first runs of a block pay for what its neighbour left in the caches; they are not counted.
_SETTLING_RUNS = 5
_COLD_BAR = 1.6
_THREADS, _THREAD_RUNS = 16, 10
_CONCURRENT = 1_000
_LOADED_PROVIDERS, _LOADED_PATTERNS = 500, 50
_LOAD_BAR = 0.6

# What the clouds' own plugins are configured with, as in their documentation.
_CLOUDS = (
    "*.dkr.ecr.*.amazonaws.com",
    "*.dkr.ecr.*.amazonaws.com.cn",
    "*.dkr.ecr-fips.*.amazonaws.com",
    "gcr.io",
    "*.gcr.io",
    "container.cloud.google.com",
    "*.pkg.dev",
    "*.azurecr.io",
    "registry-1.docker.io",
    "ghcr.io/example-org",
)
_PRIVATE = (
    "harbor-{0}.corp.example",
    "*.team-{0}.registry.example",
    "registry.example:5{0:03}",
    "quay.example/org-{0}",
    "mirror-{0}.*.corp.example/library",
    "artifacts.example:8443/team-{0}/images",
)


def run(folder: str) -> list[Row]:
    """Return all rows of lookups."""
    return [
        *_match_rows(),
        *_cached_rows(folder),
        *_in_turn_rows(folder),
        *_cold_rows(folder),
        _concurrent_row(folder),
        _load_row(folder),
    ]


def make_patterns(number: int) -> list[str]:
    """Return the clouds' patterns, then the private registries of a large company, some with globs."""
    more = range(number - len(_CLOUDS))
    return [*_CLOUDS[:number], *(_PRIVATE[at % len(_PRIVATE)].format(at) for at in more)]


def _make_images(number: int) -> list[str]:
    """Return *number* different names: of clouds, of private registries, and of hosts that no pattern matches."""
    hosts = (
        "123456789{0:03}.dkr.ecr.eu-west-1.amazonaws.com/team/app-{1}",
        "europe-docker.pkg.dev/project-{0}/images/app-{1}",
        "company{0}.azurecr.io/backend/app-{1}",
        "harbor-{0}.corp.example/platform/app-{1}",
        "eu.team-{0}.registry.example/app-{1}",
        "registry.example:5{0:03}/tools/app-{1}",
        "quay.example/org-{0}/app-{1}",
        "artifacts.example:8443/team-{0}/images/app-{1}",
        "docker.io/library/app-{1}",
        "registry.k8s.io/sig-{0}/app-{1}",
    )
    return [hosts[at % len(hosts)].format(at // len(hosts) % 1_000, at) for at in range(number)]


def _match_rows() -> list[Row]:
    images = _make_images(_MATCHED_IMAGES)
    contestants = {
        f"{number:,} pattern{'s' * (number > 1)}": partial(_match, make_patterns(number), images)
        for number in _GO_MATCH
    }
    for number in (10, 1_000):
        # 7919 is a prime: the paths are used in a scattered order.
        images = [f"registry.example/team-{at * 7919 % number}/app-{at}" for at in range(_MATCHED_IMAGES)]
        paths = [f"registry.example/team-{at}/" for at in range(number)]
        contestants[f"{number:,} paths"] = partial(_match, paths, images)
    results = take_turns(contestants, _ROUNDS)
    growth = partial(results.row, unit="µs", statistic=min, most_times=_MATCH_BAR)
    return [
        *(
            Row(
                what=f"match an unseen image, {name}",
                measured=min(results.figures[name]),
                unit="µs",
                peer="Go*",
                against=go,
            )
            for name, go in zip(contestants, _GO_MATCH.values(), strict=False)
        ),
        growth("match, growth from 10 to 1,000 patterns", "1,000 patterns", "10 patterns"),
        growth("match, the same for paths of one host", "1,000 paths", "10 paths"),
    ]


def _match(patterns: Sequence[str], images: Sequence[str]) -> list[float]:
    """Return the microseconds per image, each looked up once in a new index."""
    index = PatternIndex(enumerate(patterns))

    def match_all() -> None:
        for image in images:
            index.match(image)

    return [seconds_of(match_all) / len(images) * 1e6]


def _cached_rows(folder: str) -> list[Row]:
    contestants = {}
    for number in _GO_CACHED:
        providers = _cached_providers(folder, f"cached-{number}", [*make_patterns(number - 1), REGISTRY])
        contestants[str(number)] = partial(_look_up, providers, _Images(_CACHED_IMAGES))
    results = take_turns(contestants, _ROUNDS)
    return [
        Row(
            what=f"cached answer, unseen image, {number} pattern{'s' * (number > 1)}",
            measured=min(results.figures[str(number)]),
            unit="µs",
            peer="Go*",
            against=go,
            most=_CACHED_BAR,
        )
        for number, go in _GO_CACHED.items()
    ]


def _in_turn_rows(folder: str) -> list[Row]:
    contestants = {}
    for number in _IN_TURN:
        providers = _cached_providers(folder, f"in-turn-{number}", [REGISTRY])
        images = [f"{REGISTRY}/team/app-{at}:v1" for at in range(number)]
        contestants[f"{number:,} images"] = partial(_look_up, providers, partial(list, images))
    results = take_turns(contestants, _ROUNDS)
    few, many = contestants
    return [
        results.row(
            f"cached answer, {many} in turn", many, few, unit="µs", statistic=min, most_times=_IN_TURN_BAR
        )
    ]


class _Images:
    """A callable that returns new images at every call."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = count()

    def __call__(self) -> list[str]:
        return [f"{REGISTRY}/team/app-{next(self._count)}:v1" for _ in range(self._number)]


def _cached_providers(folder: str, name: str, patterns: list[str]) -> Providers:
    """Return providers whose plugin has answered for the registry."""
    write_script(os.path.join(folder, name))
    providers = load_providers(write_config(os.path.join(folder, f"{name}.json"), name, patterns), folder)
    providers.lookup(f"{REGISTRY}/first")
    return providers


def _look_up(providers: Providers, make_images: Callable[[], Sequence[str]]) -> list[float]:
    """Return the microseconds per lookup."""
    images = make_images()

    def look_up_all() -> None:
        for image in images:
            providers.lookup(image)

    return [seconds_of(look_up_all) / len(images) * 1e6]


def _cold_rows(folder: str) -> list[Row]:
    what, what_of_many = "cold lookup through an instant plugin", f"cold lookups, {_THREADS} threads, each"
    plugin, floor = os.path.join(folder, "instant"), os.path.join(folder, "floor")
    if not (compile_program("instant", plugin) and compile_program("floor", floor)):
        return [Row(what=each, why="no C compiler") for each in (what, what_of_many)]
    providers = load_providers(write_config(os.path.join(folder, "cold.json"), "instant", [REGISTRY]), folder)
    request = encode_request(CredentialProviderRequest(image=f"{REGISTRY}/team/app-10000"))
    images = (f"{REGISTRY}/team/app-{number}" for number in count())
    with _kubelet_environment():
        with _one_cpu():
            contestants = {
                "C floor": partial(run_floor, floor, plugin, request, _BLOCK_RUNS),
                "lookup": partial(_block, lambda: providers.lookup(next(images))),
            }
            alone = take_turns(contestants, _BLOCKS)
        threads = {
            "one thread": partial(_threads, providers, 1),
            "threads": partial(_threads, providers, _THREADS),
        }
        together = take_turns(threads, _BLOCKS)
    return [
        alone.row(what, "lookup", "C floor", unit="µs", most_times=_COLD_BAR),
        together.row(what_of_many, "threads", "one thread", unit="µs"),
    ]


@contextmanager
def _kubelet_environment() -> Iterator[None]:
    """Have as few variables as a kubelet's unit has: passing them is part of a start, for C and for Python."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({"PATH": before.get("PATH", ""), "LANG": "C.UTF-8", "INVOCATION_ID": "0" * 32})
    try:
        # How many rounds are measured is no variable of a kubelet, but read meanwhile.
        os.environ.update(
            {name: value for name, value in before.items() if name.startswith("KEYFERRY_BENCH_")}
        )
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


def run_floor(floor: str, program: str, request: bytes, runs: int) -> list[float]:
    """Return the microseconds of each run of a program that a program in C asks."""
    done = subprocess.run([floor, program, str(runs)], input=request, capture_output=True, check=True)
    return [int(nanoseconds) / 1e3 for nanoseconds in done.stdout.split()][_SETTLING_RUNS:]


def _block(ask: Callable[[], object]) -> list[float]:
    return [seconds_of(ask) * 1e6 for _ in range(_BLOCK_RUNS)][_SETTLING_RUNS:]


def _threads(providers: Providers, threads: int) -> list[float]:
    """Return the microseconds per lookup of *threads* that start at the same time."""

    def ask(name: int) -> None:
        for number in range(_THREAD_RUNS):
            providers.lookup(f"{REGISTRY}/team/app-{name}-{number}")

    return [_seconds_together(ask, threads) / (threads * _THREAD_RUNS) * 1e6]


def _seconds_together(ask: Callable[[int], None], threads: int) -> float:
    gate = threading.Barrier(threads + 1)

    def wait_and_ask(name: int) -> None:
        gate.wait()
        ask(name)

    workers = [threading.Thread(target=wait_and_ask, args=(name,)) for name in range(threads)]
    for worker in workers:
        worker.start()
    gate.wait()
    before = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - before


def _concurrent_row(folder: str) -> Row:
    plugin = os.path.join(folder, "concurrent")
    write_script(plugin, pause_seconds=0.2)
    config = write_config(os.path.join(folder, "concurrent.json"), "concurrent", [REGISTRY])
    providers = load_providers(config, folder)
    answered: list[int] = []

    def ask(number: int) -> None:
        if providers.lookup(f"{REGISTRY}/team/app-{number}").credentials:
            answered.append(number)

    _seconds_together(ask, _CONCURRENT)
    what = f"{_CONCURRENT:,} first lookups at once, plugin runs"
    if len(answered) != _CONCURRENT:
        return Row(what=what, why=f"only {len(answered)} got credentials")
    return Row(what=what, measured=runs_of(plugin), most=1)


def _load_row(folder: str) -> Row:
    patterns = make_patterns(_LOADED_PROVIDERS * _LOADED_PATTERNS)
    names = [f"load-{number}" for number in range(_LOADED_PROVIDERS)]
    for name in names:
        write_script(os.path.join(folder, name))
    by_name = {name: patterns[at::_LOADED_PROVIDERS] for at, name in enumerate(names)}
    config = write_providers(os.path.join(folder, "load.json"), by_name)
    seconds = min(_load_cpu_seconds(config, folder) for _ in range(rounds_of(_ROUNDS)))
    what = f"load {_LOADED_PROVIDERS} providers of {_LOADED_PATTERNS} patterns, CPU"
    return Row(what=what, measured=seconds, unit="s", most=_LOAD_BAR)


def _load_cpu_seconds(config: str, folder: str) -> float:
    before = time.process_time()
    load_providers(config, folder)
    return time.process_time() - before
