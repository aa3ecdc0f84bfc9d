"""The hits of providers that several lookups share."""

from __future__ import annotations

from keyferry.images.lookup import Providers
from support.function_plugins import answering, provider
from support.scripted import cache_hits


def test_hits_are_kept_for_providers_that_others_go_on_using() -> None:
    """A reload makes another object for the same providers."""
    made = provider("p", ["one.example"], answering({"one.example": ("u", "p")}))
    before = Providers([made])
    for _ in range(10):
        before.lookup("one.example/app")
    assert cache_hits(before) == cache_hits(Providers([made])) == {"p": 9}
