"""Answers are kept by image, registry or globally, per account, until their last instant; what happened is counted."""

from __future__ import annotations

import threading

import pytest

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import (
    KeyferryError,
    Kind,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.provider.cache import (
    SWEEP_INTERVAL_NS,
    Cache,
    CacheLimits,
    account_cache_key,
    cache_key,
    other_inputs,
    run_key,
)
from keyferry.images.provider.counters import BUCKETS, Counters


def entry(kind: str = "Image", expires: int | None = 100, password: str = "p") -> Provision:
    return Provision(
        provider="plugin",
        outcome=ProvisionOutcome.CACHED,
        auth={"reg.io": AuthConfig(username="u", password=password)},
        cache_key_type=kind,
        expires_ns=expires,
    )


def test_the_most_specific_answer_is_found_first() -> None:
    """The image's own, then its registry's, then the global one."""
    cache = Cache(0)
    for kind in ("Global", "Registry", "Image"):
        cache.store("reg.io/a", b"", entry(kind, password=kind))
        found = cache.find("reg.io/a", b"", 0)
        assert found is not None
        assert found.cache_key_type == kind
    assert [
        found and found.cache_key_type for found in (cache.find(i, b"", 0) for i in ("reg.io/b", "x.io/b"))
    ] == [
        "Registry",
        "Global",
    ]
    assert cache.find("reg.io/a", b"account", 0) is None


def test_an_expired_answer_is_dropped_when_found_and_the_next_is_tried() -> None:
    """A live registry-wide answer stands behind an expired one of the image."""
    cache = Cache(0)
    cache.store("reg.io/a", b"", entry("Registry", 200))
    cache.store("reg.io/a", b"", entry("Image", 100))
    found = cache.find("reg.io/a", b"", 101)
    assert found is not None
    assert found.cache_key_type == "Registry"
    assert len(cache) == 1


def test_a_full_cache_drops_its_oldest() -> None:
    """Storing again makes an answer the newest, and costs no other its place."""
    cache = Cache(0, CacheLimits(entries=3))
    for image in "abacd":
        cache.store(f"reg.io/{image}", b"", entry())
    assert [image for image in "abcd" if cache.find(f"reg.io/{image}", b"", 0)] == ["a", "c", "d"]
    cache.store("reg.io/d", b"", entry())
    assert len(cache) == 3


def test_a_cache_full_of_bytes_drops_its_oldest() -> None:
    """As many as the new one needs; one that is larger than the cache is not kept, and displaces none but its own."""
    cache = Cache(0, CacheLimits(bytes=24_000))
    for number in range(4):
        cache.store(f"reg.io/{number}", b"", entry(password="x" * 1000))
    assert len(cache) == 4
    cache.store("reg.io/large", b"", entry(password="x" * 3000))
    assert [cache.find(f"reg.io/{n}", b"", 0) is not None for n in (0, 1, 2, 3, "large")] == [
        False,
        False,
        True,
        True,
        True,
    ]
    cache.store("reg.io/2", b"", entry(password="x" * 20_000))
    assert [cache.find(f"reg.io/{n}", b"", 0) is not None for n in (2, 3, "large")] == [False, True, True]


def test_an_answer_without_an_expiry_is_not_kept() -> None:
    """It was given once, to who asked."""
    cache = Cache(0)
    cache.store("reg.io/a", b"", entry(expires=None))
    assert len(cache) == 0


def test_what_is_dropped_makes_room() -> None:
    """However an answer goes, what it took is counted off."""
    cache = Cache(0, CacheLimits(bytes=24_000))
    for round_ in range(50):
        now = round_ * 2 * SWEEP_INTERVAL_NS
        cache.store("reg.io/a", b"", entry(expires=now, password="x" * 3000))
        cache.store("reg.io/a", b"", entry(expires=now, password="y" * 3000))
        cache.store("reg.io/b", b"", entry(expires=now + 1, password="p" * 3000))
        assert len(cache) == 2
        cache.evict("reg.io/b", "u", "p" * 3000)
        assert len(cache) == 1
        assert cache.find("reg.io/a", b"", now + 1) is None
        cache.store("reg.io/a", b"", entry(expires=now, password="y" * 3000))
        cache.find("reg.io/c", b"", now + 2 * SWEEP_INTERVAL_NS - 1)
        assert len(cache) == 0


def test_a_sweep_waits_for_its_interval() -> None:
    """Expired answers go strictly after the interval, and the next sweep counts from there."""
    cache = Cache(0)
    cache.store("reg.io/a", b"", entry())
    cache.find("x.io/a", b"", SWEEP_INTERVAL_NS)
    assert len(cache) == 1
    cache.find("x.io/a", b"", SWEEP_INTERVAL_NS + 1)
    assert len(cache) == 0
    cache.store("reg.io/a", b"", entry(expires=SWEEP_INTERVAL_NS))
    cache.find("x.io/a", b"", 2 * SWEEP_INTERVAL_NS)
    assert len(cache) == 1


def test_eviction_takes_what_may_have_served_the_image() -> None:
    """Of every account, under all three keys, with this credential, and not what is to be kept."""
    cache = Cache(0)
    for image, account, kind in (
        ("reg.io/a", b"", "Image"),
        ("reg.io/b", b"one", "Registry"),
        ("x.io/b", b"two", "Global"),
        ("reg.io/b", b"", "Image"),
        ("x.io/b", b"", "Registry"),
    ):
        cache.store(image, account, entry(kind))
    assert cache.evict("reg.io/a", "u", "other") == []
    assert cache.evict("reg.io/a", "other", "p") == []
    keep = cache_key("reg.io", b"one")
    assert cache.evict("reg.io/a", "u", "p", keep={keep}) == [
        cache_key("reg.io/a", b""),
        cache_key("<global>", b"two"),
    ]
    assert cache.evict("reg.io/a", "u", "p") == [keep]
    assert len(cache) == 2


def test_the_soonest_expiry_is_that_of_a_live_answer() -> None:
    """What has expired does not count, and an empty cache has none."""
    cache = Cache(0)
    assert cache.soonest_expiry_ns(0) is None
    for number, expires in enumerate((100, 300, 200)):
        cache.store(f"reg.io/{number}", b"", entry(expires=expires))
    assert [cache.soonest_expiry_ns(now) for now in (0, 100, 101, 300, 301)] == [100, 100, 200, 300, None]


def test_keys_are_the_kubelets() -> None:
    """Lengths in two bytes, the number of annotations in four, sorted by key; the token only with Token."""
    parts = {
        "namespace": "ns",
        "name": "n",
        "uid": "u",
        "annotations": {"b": "2", "a": "1"},
        "token_hash": "h",
    }
    expected = b"\0\2ns\0\1n\0\1u\0\0\0\2\0\1a\0\0011\0\1b\0\0012"
    assert account_cache_key(cache_type="ServiceAccount", **parts) == expected  # type: ignore[arg-type] # a table
    assert account_cache_key(cache_type="Token", **parts) == expected + b"\0\5token\0\1h"  # type: ignore[arg-type] # as above
    assert cache_key("reg.io", b"\1\2") == b"\0\6reg.io\0\2\1\2"
    assert run_key("i", other_inputs("h", {})) == b"\0\1i\0\1h\0\0\0\0"


def test_a_part_that_its_length_has_no_room_for_is_refused_in_gos_words() -> None:
    """Two bytes hold 65,535; the words are those of golang.org/x/crypto/cryptobyte."""
    assert len(cache_key("a" * 65_535, b"")) == 2 + 65_535 + 2
    with pytest.raises(ServiceAccountError) as caught:
        cache_key("a" * 65_536, b"")
    text = "cryptobyte: pending child length 65536 exceeds 2-byte length prefix"
    assert caught.value.kubernetes_text == text


def test_an_entry_does_not_show_its_credentials() -> None:
    """The repr of what is kept has its type and expiry, and nothing of what the plugin gave."""
    shown = repr(entry(password="hunter2"))
    assert "cache_key_type='Image', expires_ns=100" in shown
    assert not any(secret in shown for secret in ("hunter2", "'u'", "reg.io"))


def test_the_buckets_are_the_kubelets() -> None:
    """The upper bounds are those of the kubelet's histogram, in seconds."""
    assert BUCKETS == (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@pytest.mark.parametrize(
    ("problem", "cause", "errors"),
    [
        (PluginExitError("p", 1), "exit", 1),
        (PluginTimeoutError("p", 60), "timeout", 1),
        (PluginNotFoundError("p", "m"), "not-found", 1),
        (PluginStartError("p", "m"), "start", 1),
        (PluginOutputError("p", "m"), "output", 1),
        (PluginProtocolError("p", "m"), "protocol", 0),
        (PluginError("p", "m"), "error", 0),
        (KeyferryError("m"), "error", 0),
    ],
)
def test_only_failed_executions_are_errors(problem: KeyferryError, cause: str, errors: int) -> None:
    """An answer that cannot be used is a failure by cause, but no execution error."""
    counters = Counters()
    counters.ran(0.1, problem, 0)
    counts = counters.read()
    assert (counts.runs, counts.execution_errors, counts.failures) == (1, errors, {cause: 1})


def test_every_run_is_observed() -> None:
    """A duration falls into the first bucket that holds it, its bound included; the rest goes to the last."""
    counters = Counters()
    for seconds in (0.0, 0.005, 0.0051, 10.0, 10.1, None):
        counters.ran(seconds, None, 0)
    counts = counters.read()
    assert counts.buckets == (3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    assert counts.seconds == pytest.approx(20.1101)
    assert counts.failures == {}


def test_a_failure_before_a_run_is_no_run() -> None:
    """A missing account counts by its cause and touches nothing else."""
    counters = Counters()
    counters.failed(Kind.SERVICE_ACCOUNT)
    counters.failed(Kind.SERVICE_ACCOUNT)
    counts = counters.read()
    assert (counts.runs, counts.execution_errors, counts.failures) == (0, 0, {"service-account": 2})


def test_a_reading_does_not_change_afterwards() -> None:
    """What was read is a moment's state, not a view."""
    counters = Counters()
    before = counters.read()
    counters.ran(1, PluginExitError("p", 1), 0)
    counters.hit()
    assert (before.runs, before.hits, before.failures, sum(before.buckets)) == (0, 0, {}, 0)


def test_no_count_is_lost_between_threads() -> None:
    """Eight threads count together without losing one."""
    counters = Counters()

    def count() -> None:
        for _ in range(2_000):
            counters.hit()
            counters.shared()
            counters.shared()
            counters.ran(0.1, None, 0)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = counters.read()
    assert (counts.hits, counts.shared, counts.runs) == (16_000, 32_000, 16_000)


def test_the_last_run_is_known_and_since_when_runs_end_like_it() -> None:
    """The first failure in a row counts, and the first run after it that did not fail."""
    counters, found = Counters(), []
    problem = PluginExitError("p", 1)
    assert (counters.read().last_run_ns, counters.read().streak_ns) == (None, None)
    for at_ns, error in enumerate((problem, problem, None, None, problem)):
        counters.ran(0.1, error, at_ns)
        counts = counters.read()
        found.append((counts.last_run_ns, counts.has_last_failed, counts.streak_ns))
    assert found == [(0, True, 0), (1, True, 0), (2, False, 2), (3, False, 2), (4, True, 4)]
