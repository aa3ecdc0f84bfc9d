"""Answers in memory: for many images, in an event loop, and the cost of storing them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from bench.matching import make_patterns
from bench.measure import Row, best, take_turns
from bench.plugins import REGISTRY, write_config, write_script

from keyferry import Providers, load_providers
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.provider.cache import Cache, CacheLimits

_NUMBERS = (1_000, 100_000)
_CACHED_BAR = 40.0
_LOAD_BAR = 0.6
_STORE_BAR = 3.0
_UNSEEN = 2_000
_ROUNDS = 7
_PROVIDERS, _PATTERNS = 500, 50
_STORED = 10_000
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
# A registry's answer often has keys for its other names too.
_KEYS = (REGISTRY, "*.gcr.io", "*.pkg.dev", "gcr.io", "other.example/team")


def run(folder: str) -> list[Row]:
    """Return rows for images in turn, for unseen images of a cached answer, for loading and for storing."""
    return [*_in_turn(folder), *_unseen(folder), _load(folder), *_stores()]


def _in_turn(folder: str) -> list[Row]:
    contestants = {}
    for number in _NUMBERS:
        providers = _providers(folder, f"turn-{number}")
        images = [f"{REGISTRY}/team/app-{at}:v1" for at in range(number)]
        _look_up_all(providers, images)
        contestants[number] = partial(_round, partial(_look_up_all, providers, images), number)
    results = take_turns(contestants, _ROUNDS)
    note = f"best of {_ROUNDS} rounds"
    return [
        Row(
            f"cached lookup, {number:,} images in turn",
            best(results[number]),
            "µs",
            _CACHED_BAR,
            note=note,
        )
        for number in _NUMBERS
    ]


def _unseen(folder: str) -> list[Row]:
    one, many, in_loop = (
        _Unseen(_providers(folder, name, keys))
        for name, keys in (("one-key", _KEYS[:1]), ("five-keys", _KEYS), ("in-loop", _KEYS[:1]))
    )
    results = take_turns({"one": one.look_up, "many": many.look_up, "loop": in_loop.look_up_in_loop}, _ROUNDS)
    note = f"{_UNSEEN:,} images, best of {_ROUNDS} rounds"
    what = "unseen image, its answer cached"
    return [
        Row(f"{what}, 1 key", best(results["one"]), "µs", _CACHED_BAR, note=note),
        Row(f"{what}, {len(_KEYS)} keys", best(results["many"]), "µs", _CACHED_BAR, note=note),
        Row(f"{what}, asyncio", best(results["loop"]), "µs", _CACHED_BAR, note=note),
    ]


class _Unseen:
    """A callable that looks up new images of a registry whose answer is cached."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._number = 0
        providers.lookup(f"{REGISTRY}/first")

    def look_up(self) -> list[float]:
        return [_microseconds(partial(_look_up_all, self._providers, self._images()), _UNSEEN)]

    def look_up_in_loop(self) -> list[float]:
        images = self._images()

        async def ask() -> float:
            before = time.perf_counter()
            for image in images:
                await self._providers.lookup_async(image)
            return time.perf_counter() - before

        return [asyncio.run(ask()) / _UNSEEN * 1e6]

    def _images(self) -> list[str]:
        self._number += _UNSEEN
        return [f"{REGISTRY}/team/app-{self._number + at}:v1" for at in range(_UNSEEN)]


def _load(folder: str) -> Row:
    patterns = make_patterns(_PROVIDERS * _PATTERNS)
    names = [f"load-{number}" for number in range(_PROVIDERS)]
    for name in names:
        write_script(os.path.join(folder, name))
    providers = [
        {
            "name": name,
            "matchImages": patterns[at * _PATTERNS : (at + 1) * _PATTERNS],
            "defaultCacheDuration": "0s",
            "apiVersion": _API_VERSION,
        }
        for at, name in enumerate(names)
    ]
    config = os.path.join(folder, "load.json")
    head = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    with open(config, "w", encoding="utf-8") as stream:
        json.dump({**head, "providers": providers}, stream)
    seconds = min(_cpu_seconds(partial(load_providers, config, folder)) for _ in range(_ROUNDS))
    what = f"load of {_PROVIDERS:,} providers with {_PATTERNS} patterns each"
    return Row(what, seconds, "s CPU", _LOAD_BAR, note=f"best of {_ROUNDS} rounds")


def _stores() -> list[Row]:
    cache = Cache(0, CacheLimits(entries=_STORED))
    answer = Provision(
        provider="bench",
        outcome=ProvisionOutcome.CACHED,
        auth={REGISTRY: AuthConfig(username="bench", password="made-up")},
        cache_key_type="Image",
        expires_ns=1 << 62,
    )
    rounds = [[f"{REGISTRY}/team/app-{at}-{number}" for number in range(_STORED)] for at in range(_ROUNDS)]

    def store(images: Sequence[str]) -> None:
        for image in images:
            cache.store(image, b"", answer)

    below, *beyond = (_microseconds(partial(store, images), _STORED) for images in rounds)
    note = f"{_STORED:,} answers"
    return [
        Row("an answer stored, cache below its bound", below, "µs", _STORE_BAR, note=f"{note}, 1 round"),
        Row("an answer stored, cache beyond its bound", min(beyond), "µs", _STORE_BAR, note=note),
    ]


def _providers(folder: str, name: str, keys: Sequence[str] = _KEYS[:1]) -> Providers:
    write_script(os.path.join(folder, name), keys=keys)
    return load_providers(write_config(os.path.join(folder, f"{name}.json"), name, [REGISTRY]), folder)


def _look_up_all(providers: Providers, images: Sequence[str]) -> None:
    lookup = providers.lookup
    for image in images:
        lookup(image)


def _round(call: Callable[[], object], number: int) -> list[float]:
    return [_microseconds(call, number)]


def _microseconds(call: Callable[[], object], number: int) -> float:
    before = time.perf_counter()
    call()
    return (time.perf_counter() - before) / number * 1e6


def _cpu_seconds(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before
