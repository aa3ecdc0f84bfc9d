"""Answers are kept by image, registry or globally, per account, until their last instant."""

from __future__ import annotations

import pytest

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import ServiceAccountError
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.provider.cache import (
    SWEEP_INTERVAL_NS,
    Cache,
    CacheLimits,
    account_cache_key,
    base_key,
    cache_key,
    hash_token,
    other_inputs,
    run_key,
    shares_cache_key,
)


def entry(kind: str = "Image", expires: int | None = 100, password: str = "p") -> Provision:
    return Provision(
        provider="plugin",
        outcome=ProvisionOutcome.CACHED,
        auth={"reg.io": AuthConfig(username="u", password=password)},
        cache_key_type=kind,
        expires_ns=expires,
    )


@pytest.mark.parametrize(
    ("kind", "key"), [("Image", "reg.io:5/a/b"), ("Registry", "reg.io:5"), ("Global", "<global>")]
)
def test_the_type_of_an_answer_decides_its_key(kind: str, key: str) -> None:
    """The whole image, everything before its first slash, or one key for all."""
    assert base_key(kind, "reg.io:5/a/b") == key


@pytest.mark.parametrize(
    ("kind", "same_registry", "elsewhere"),
    [("Image", False, False), ("Registry", True, False), ("Global", True, True)],
)
def test_an_answer_covers_what_has_its_key(kind: str, same_registry: bool, elsewhere: bool) -> None:
    """An answer holds for another image exactly if that would be kept under the same key."""
    assert shares_cache_key(kind, "reg.io/a", "reg.io/a")
    assert shares_cache_key(kind, "reg.io/a", "reg.io/b") is same_registry
    assert shares_cache_key(kind, "reg.io/a", "other.io/a") is elsewhere


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


def test_a_token_is_hashed_and_the_empty_one_is_not() -> None:
    """The hash is written as the kubelet writes it."""
    assert hash_token("") == ""
    assert hash_token("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_an_entry_does_not_show_its_credentials() -> None:
    """The repr of what is kept has its type and expiry, and nothing of what the plugin gave."""
    shown = repr(entry(password="hunter2"))
    assert "cache_key_type='Image', expires_ns=100" in shown
    assert not any(secret in shown for secret in ("hunter2", "'u'", "reg.io"))
