"""Finished answers are kept within a limit of bytes, and their hits are counted when they are forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.provider.cache import MOST_BYTES, CacheLimits
from support.function_plugins import answering, provider
from support.plugins import Node, provider_entry, write_config

KIB = 1024


def test_finished_answers_take_no_more_than_they_may() -> None:
    """Also after they were dropped, which begins another table."""
    auth = {"one.example": ("u", "p" * 20 * KIB)}
    asked = Providers([provider("p", ["one.example"], answering(auth, "Image"))], warm_bytes=256 * KIB)
    for _ in range(2):
        for number in range(40):
            for _ in range(2):
                asked.lookup(f"one.example/{number}")
        assert 0 < len(asked._warm) <= 256 // 20
        assert asked._warm._bytes <= 256 * KIB
        asked.settle()
        assert len(asked._warm) == 0


@pytest.mark.parametrize(("wanted", "expected"), [(100_000, 100_000), (1 << 40, MOST_BYTES)])
def test_the_limit_of_the_caches_is_also_that_of_finished_answers(
    tmp_path: Path, wanted: int, expected: int
) -> None:
    """Where it is smaller than their own."""
    node = Node(tmp_path)
    node.recording()
    write_config(node.config, [provider_entry()])
    settings = ProviderSettings(cache_limits=CacheLimits(bytes=wanted))
    assert make_providers(str(node.config), str(node.bin_dir), settings)._warm._most_bytes == expected


def test_hits_are_kept_for_providers_that_others_go_on_using() -> None:
    """A reload makes another object for the same providers."""
    made = provider("p", ["one.example"], answering({"one.example": ("u", "p")}))
    before = Providers([made])
    for _ in range(10):
        before.lookup("one.example/app")
    assert before.cache_hits() == {"p": 9}
    before.settle()
    assert before.cache_hits() == Providers([made]).cache_hits() == {"p": 9}
