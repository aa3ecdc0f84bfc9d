"""Check that many lookups leave nothing behind: memory, descriptors, zombies.

The lookups are made in a fresh process, so that free memory left by other benchmarks does not hide growth. The size of
one pattern and one cached answer is measured by the interpreter, in bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.matching import make_patterns
from bench.measure import ROOT, SOURCES, Row, skipped
from bench.plugins import REGISTRY, compile_program, write_config, write_script

_LOOKUPS = 10_000
# Enough to fill every bounded memo, so that what comes after them is growth.
_FILLING = 4_200
_MEBIBYTE = 1024 * 1024
_HELD = 4_000


def run(folder: str) -> list[Row]:
    """Return rows for lookups that share one cached answer, and for lookups that each run the plugin."""
    if not os.path.exists("/proc/self/statm"):
        return [skipped("memory", "skipped: no /proc")]
    write_script(os.path.join(folder, "shared"))
    rows = _sizes()
    rows += _rows(f"{_LOOKUPS:,} lookups of distinct images, one cached answer", "shared", folder)
    what = f"{_LOOKUPS:,} lookups of distinct images, each a plugin run"
    if not compile_program("instant", os.path.join(folder, "each")):
        return [*rows, skipped(what, "skipped: no C compiler")]
    return [*rows, *_rows(what, "each", folder)]


def _rows(what: str, plugin: str, folder: str) -> list[Row]:
    config = write_config(os.path.join(folder, f"{plugin}.json"), plugin, [REGISTRY])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((SOURCES, ROOT))}
    command = [sys.executable, "-m", "bench.memory", config, folder]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    before, after = (_Reading(**reading) for reading in json.loads(printed))
    left = f"{after.descriptors - before.descriptors} descriptors, {after.zombies} zombies left"
    left += f"; before: after {_FILLING:,} that fill the memos"
    return [Row(f"{what}: memory", after.mebibytes, "MiB", before.mebibytes, "before", note=left)]


def _sizes() -> list[Row]:
    """Return the bytes of each kind of stored object, and for the tables their maximum size."""
    from keyferry.images.provider.cache import MAX_BYTES

    bound = f"all of a provider's {MAX_BYTES // _MEBIBYTE} MiB at most"
    return [
        Row("memory of a pattern", _bytes_each(_hold_patterns), "B", note=f"{_HELD:,} of them"),
        Row("memory of a cached answer", _bytes_each(_hold_answers), "B", note=bound),
    ]


def _bytes_each(hold: Callable[[int], object]) -> float:
    hold(10)  # what is imported or made once is none of it
    tracemalloc.start()
    try:
        held = hold(_HELD)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del held
    return taken / _HELD


def _hold_patterns(number: int) -> object:
    from keyferry.images.match import PatternIndex

    return PatternIndex(enumerate(make_patterns(number)))


def _hold_answers(number: int) -> object:
    from keyferry.api.credentialprovider.v1 import AuthConfig
    from keyferry.images.answer import Provision, ProvisionOutcome
    from keyferry.images.provider.cache import Cache

    cache = Cache(0)
    for at in range(number):
        auth = {f"{REGISTRY}/team-{at}": AuthConfig(username=f"bench-{at}", password=f"made-up-{at}")}
        answer = Provision(
            provider="bench",
            outcome=ProvisionOutcome.CACHED,
            auth=auth,
            cache_key_type="Image",
            expires_ns=1 << 62,
        )
        answer.keyring.lookup(f"{REGISTRY}/team-{at}/app")
        cache.store(f"{REGISTRY}/team-{at}/app", b"", answer)
    return cache


class _Reading:
    """The resources of a process at one time."""

    def __init__(self, mebibytes: float, descriptors: int, zombies: int) -> None:
        self.mebibytes = mebibytes
        self.descriptors = descriptors
        self.zombies = zombies


def _read() -> dict[str, float]:
    with open("/proc/self/statm", encoding="ascii") as stream:
        resident = int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "mebibytes": resident / _MEBIBYTE,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "zombies": _zombies(),
    }


def _zombies() -> int:
    """Return the number of ended children that were not reaped; no child runs at this time."""
    found = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as stream:
            found += len(stream.read().split())
    return found


def main() -> None:
    """Look up different images and print the resources before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("config", "bin_dir"):
        parser.add_argument(name)
    args = parser.parse_args()
    from keyferry import load_providers

    providers = load_providers(args.config, args.bin_dir)
    for number in range(_FILLING):
        providers.lookup(f"{REGISTRY}/filling/app-{number}")
    readings = [_read()]
    for number in range(_LOOKUPS):
        providers.lookup(f"{REGISTRY}/team/app-{number}")
    readings.append(_read())
    print(json.dumps(readings))


if __name__ == "__main__":
    main()
