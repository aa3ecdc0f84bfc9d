"""A provider answers from its cache or from a run; what is cached is told, and goes."""

from __future__ import annotations

import pytest

from keyferry import Pod, ServiceAccount
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import PluginExitError, PluginProtocolError
from keyferry.images.answer import ProvisionOutcome
from keyferry.images.provider.accounts import Relayed
from keyferry.images.provider.cache import DEFAULT_LIMITS, CacheEntry, CacheLimits
from keyferry.images.provider.provider import Provider
from support.scripted import (
    SECOND,
    Accounts,
    Clock,
    Scripted,
    attributes,
    cache_entries,
    configured,
    provider,
    response,
)


def test_a_run_fills_the_cache() -> None:
    """The first answer ran, the second is cached; both say until when."""
    clock = Clock()
    asked = provider(Scripted(response(cache_seconds=60)), clock)
    first, second = asked.provide("reg.io/app"), asked.provide("reg.io/app")
    assert (first.outcome, second.outcome) == (ProvisionOutcome.RAN, ProvisionOutcome.CACHED)
    assert first.expires_ns == second.expires_ns == clock.now + 60 * SECOND
    assert first.seconds == 0.003
    assert first.auth == second.auth
    clock.step(15)
    asked.provide("x.io/app")
    assert asked.soonest_expiry_seconds() == 45


@pytest.mark.parametrize(
    ("answered", "default", "expected"),
    [(60, 5, 60), (None, 5, 5), (0, 5, None), (None, 0, None), (None, None, None), (-1, 5, -1)],
)
def test_the_answers_duration_comes_before_the_configs(
    answered: float | None, default: float | None, expected: float | None
) -> None:
    """Absent means the default; 0 of either means not at all."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=answered))
    asked = provider(plugin, clock, configured(default_seconds=default))
    expires = asked.provide("reg.io/app").expires_ns
    assert expires == (None if expected is None else clock.now + expected * SECOND)


def test_a_failure_is_an_answer_with_both_wordings() -> None:
    """The error, its seconds, and Kubernetes' sentence around its own."""
    error = PluginExitError("plugin", 2, "error execing: exit status 2: ")
    error.seconds = 0.5
    provision = provider(Scripted(error), Clock()).provide("reg.io/app")
    assert (provision.error, provision.seconds) == (error, 0.5)
    assert provision.kubernetes_text == (
        "failed to get credential from external registry credential provider: error execing: exit status 2: "
    )


def test_an_invalid_cache_key_type_is_a_failure() -> None:
    """Kubernetes quotes it; our own text does not."""
    provision = provider(Scripted(response(cache_key_type="hunter2")), Clock()).provide("reg.io/app")
    assert isinstance(provision.error, PluginProtocolError)
    assert provision.kubernetes_text.endswith("did not return a valid cacheKeyType: hunter2")
    assert "hunter2" not in str(provision.error)


def test_a_run_after_waiting_has_what_is_left_of_the_time() -> None:
    """And none is made where nothing is left."""
    given: list[float | None] = []

    def note(
        _: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        given.append(timeout_seconds)
        return response(), 0.1

    asked = Provider(configured(), note, clock=Clock())
    late = asked.provide("reg.io/a", timeout_seconds=100, waited_seconds=101)
    assert (late.outcome, given) == (ProvisionOutcome.FAILED, [])
    asked.provide("a.io/a")
    asked.provide("b.io/a", timeout_seconds=100)
    asked.provide("c.io/a", timeout_seconds=100, waited_seconds=90)
    assert given[:2] == [None, 100]
    assert 0 < (given[2] or 0) <= 10


def test_nothing_that_a_plugin_gave_is_in_a_repr() -> None:
    """Not of its last answer, nor of what is cached; a key may have user info."""
    asked = provider(Scripted(response("hunter2", keys=("name:hidden@reg.io",))), Clock())
    given = asked.provide("reg.io/app")
    shown = repr((given, asked.last_answer, asked.answers()))
    assert "reg.io/app" in shown
    assert not any(secret in shown for secret in ("hunter2", "hidden", "'user'"))


# The cache


def test_a_live_answer_for_the_registry_stands_behind_an_expired_one_for_the_image() -> None:
    clock = Clock()
    plugin = Scripted(response("own", cache_key_type="Image", cache_seconds=10))
    asked = provider(plugin, clock)
    asked.provide("reg.io/a")
    plugin.answer = response("wide")
    asked.provide("reg.io/b")
    assert asked.provide("reg.io/a").auth["reg.io"].password == "own"
    clock.step(11)
    assert asked.provide("reg.io/a").auth["reg.io"].password == "wide"
    assert plugin.runs == 2


def test_an_answer_that_goes_leaves_its_room_to_others() -> None:
    """However it goes: replaced, evicted, found expired, or swept out."""
    clock = Clock()
    plugin = Scripted(lambda request: answers.get(request.image, PluginExitError("plugin", 1)))
    answer = response(cache_key_type="Image", cache_seconds=60)
    answers = {"reg.io/a": answer, "reg.io/b": answer}
    asked = provider(plugin, clock)

    def room_taken() -> int:
        return asked.cache_uses()[0].bytes

    asked.provide("reg.io/a")
    one = room_taken()
    asked.refresh("reg.io/a")
    assert room_taken() == one
    asked.provide("reg.io/b")
    assert room_taken() == 2 * one
    assert asked.evict("reg.io/b", "user", "p1")
    assert room_taken() == one
    clock.step(61)
    del answers["reg.io/a"]
    asked.provide("reg.io/a")
    assert room_taken() == 0
    asked.provide("reg.io/b")
    clock.step(15 * 60)
    asked.provide("reg.io/other")
    assert room_taken() == 0


def test_a_renewed_answer_is_the_newest() -> None:
    """A full cache drops the oldest one."""
    plugin = Scripted(response(cache_key_type="Image"))
    asked, _ = noting(plugin, Clock(), CacheLimits(entries=3))
    for image in ("a.io/x", "b.io/x"):
        asked.provide(image)
    asked.refresh("a.io/x")
    for image in ("c.io/x", "d.io/x"):
        asked.provide(image)
    assert [each.image for each in asked.answers()] == ["a.io/x", "c.io/x", "d.io/x"]


def test_an_eviction_takes_what_may_have_served_the_image() -> None:
    """Of every account, for the image, its registry or everything; what served only other images stays."""
    pods = {
        name: Pod(namespace="ns", name="pod", uid="uid", service_account_name=name) for name in ("one", "two")
    }
    accounts = Accounts({("ns", name): ServiceAccount(uid=name) for name in pods})
    plugin = Scripted(response())
    config = configured(token_attributes=attributes(require=False))
    asked = provider(plugin, Clock(), config, accounts)
    for image, pod, kind in (
        ("reg.io/a", None, "Image"),
        ("reg.io/b", pods["one"], "Registry"),
        ("x.io/b", pods["two"], "Global"),
        ("reg.io/b", None, "Image"),
        ("x.io/b", None, "Registry"),
    ):
        plugin.answer = response(cache_key_type=kind)
        assert asked.provide(image, pod).outcome is ProvisionOutcome.RAN
    assert not asked.evict("reg.io/a", "user", "other")
    assert not asked.evict("reg.io/a", "other", "p1")
    assert asked.evict("reg.io/a", "user", "p1")
    assert cache_entries(asked) == 2
    for image in ("reg.io/b", "x.io/b"):
        assert asked.provide(image).outcome is ProvisionOutcome.CACHED


def noting(
    plugin: Scripted, clock: Clock, limits: CacheLimits = DEFAULT_LIMITS
) -> tuple[Provider, list[CacheEntry]]:
    """A provider, and what it tells of new answers to who renews them ahead."""
    told: list[CacheEntry] = []
    config = configured(token_attributes=attributes(require=False))
    on_cached = lambda _, entry: told.append(entry)  # noqa: E731 - short
    return Provider(config, plugin, clock=clock, cache_limits=limits, on_cached=on_cached), told


def test_what_is_cached_for_everybody_is_told_and_listed() -> None:
    """With the image that it was asked for, until it ends."""
    clock = Clock()
    asked, told = noting(Scripted(response(cache_seconds=60)), clock)
    asked.provide("reg.io/app")
    assert [(entry.base, entry.image) for entry in told] == [("reg.io", "reg.io/app")]
    assert asked.answers() == tuple(told)
    clock.step(61)
    assert asked.answers() == ()


def test_what_is_not_cached_is_not_told() -> None:
    """An answer larger than the cache, which displaces no other, and one handed over that is not needed."""
    plugin = Scripted(response(cache_key_type="Image"))
    asked, told = noting(plugin, Clock(), CacheLimits(bytes=15_000))
    small = asked.provide("reg.io/small")
    plugin.answer = response("p" * 15_000, cache_key_type="Image")
    assert asked.provide("reg.io/large").outcome is ProvisionOutcome.RAN
    asked.restore("reg.io/small", small)
    assert [entry.image for entry in told] == ["reg.io/small"]
    assert asked.answers() == tuple(told)


def test_what_is_held_has_its_beginning_and_keeps_its_number() -> None:
    """Answers of service accounts are among it; a renewal is the same answer with another life."""
    clock = Clock()
    asked, _ = noting(Scripted(response(cache_seconds=60)), clock)
    asked.provide("reg.io/app")
    asked.provide("reg.io/app", Relayed(token="one", key=b"one", until_ns=1 << 60, annotations={}))
    everybody, account = asked.answers()
    assert (everybody.base, everybody.is_shared, account.is_shared) == ("reg.io", True, False)
    assert everybody.provision.got_ns == clock.now
    assert everybody.number != account.number
    clock.step(10)
    asked.refresh("reg.io/app")
    [renewed] = [each for each in asked.answers() if each.is_shared]
    assert (renewed.number, renewed.provision.got_ns) == (everybody.number, clock.now)
