"""A provider answers from its cache, from a run, or from a run under way."""

from __future__ import annotations

import sys
import threading

import pytest

from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import (
    PluginError,
    PluginExitError,
    PluginProtocolError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import LookupInput, MissingInput, ProvisionOutcome
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import Pod, Relayed, ServiceAccount
from keyferry.images.provider.cache import CacheEntry, CacheLimits
from keyferry.images.provider.provider import Provider
from support.plugins import wait_until
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

POD = Pod(namespace="ns", name="pod", uid="uid", service_account_name="builder")


class Gate:
    """A plugin that waits at a gate, so that others can ask meanwhile."""

    def __init__(self, kind: str, error: PluginError | None = None) -> None:
        self.kind, self.error = kind, error
        self.images: list[str] = []
        self.running, self.open = threading.Event(), threading.Event()

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        """Answer once the gate is open."""
        del timeout_seconds
        self.images.append(request.image)
        self.running.set()
        assert self.open.wait(10)
        if self.error is not None:
            raise self.error
        return response(cache_key_type=self.kind), 0.1


def wait_until_it_waits(thread: threading.Thread) -> None:
    """Wait until a thread waits for a run: its own at the gate, or that of another."""

    def is_waiting() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)
        return frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) == (
            threading.__file__,
            "wait",
        )

    wait_until(is_waiting, "a thread to wait")


def asked_together(asked: Provider, gate: Gate, first: str, second: str) -> list[ProvisionOutcome]:
    """Ask for *second* while the run for *first* is under way."""
    found: dict[str, ProvisionOutcome] = {}

    def ask(name: str, image: str) -> None:
        found[name] = asked.provide(image).outcome

    one = threading.Thread(target=ask, args=("one", first))
    two = threading.Thread(target=ask, args=("two", second))
    one.start()
    assert gate.running.wait(10)
    two.start()
    wait_until_it_waits(two)
    gate.open.set()
    one.join(10)
    two.join(10)
    return [found["one"], found["two"]]


def test_a_run_fills_the_cache() -> None:
    """The first answer ran, the second is cached; both say until when."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, clock)
    first, second = asked.provide("reg.io/app"), asked.provide("reg.io/app")
    assert (first.outcome, second.outcome) == (ProvisionOutcome.RAN, ProvisionOutcome.CACHED)
    assert first.expires_ns == second.expires_ns == clock.now + 60 * SECOND
    clock.step(15)
    assert asked.soonest_expiry_seconds() == 45
    assert first.seconds == 0.003
    assert first.auth == second.auth
    assert cache_entries(asked) == 1
    assert asked.name == "plugin"


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
    assert provision.error is error
    assert provision.seconds == 0.5
    assert provision.kubernetes_text == (
        "failed to get credential from external registry credential provider: error execing: exit status 2: "
    )


def test_an_invalid_cache_key_type_is_a_failure() -> None:
    """Kubernetes quotes it; our own text does not."""
    provision = provider(Scripted(response(cache_key_type="hunter2")), Clock()).provide("reg.io/app")
    assert isinstance(provision.error, PluginProtocolError)
    assert provision.kubernetes_text.endswith("did not return a valid cacheKeyType: hunter2")
    assert "hunter2" not in str(provision.error)


def test_an_account_is_part_of_request_and_answer() -> None:
    """The plugin gets token and annotations; the answer says for whom it is."""
    accounts = Accounts(
        {("ns", "builder"): ServiceAccount(uid="sa-uid", annotations={"role": "r", "x": "y"})}
    )
    plugin = Scripted(response())
    asked = provider(plugin, Clock(), configured(token_attributes=attributes(required=("role",))), accounts)
    for how in (ProvisionOutcome.RAN, ProvisionOutcome.CACHED):
        provision = asked.provide("reg.io/app", POD)
        assert (provision.outcome, provision.account) == (
            how,
            ServiceAccountRef(namespace="ns", name="builder", uid="sa-uid"),
        )
    assert plugin.requests == [
        CredentialProviderRequest(
            image="reg.io/app",
            service_account_token="token-of-sa-uid",
            service_account_annotations={"role": "r"},
        )
    ]
    assert len(accounts.requests) == 2


def test_a_token_is_requested_before_the_cache_is_looked_at() -> None:
    """As in the kubelet: when the account cannot be had, a cached answer does not help."""
    accounts = Accounts({("ns", "builder"): ServiceAccount(uid="sa-uid")})
    asked = provider(Scripted(response()), Clock(), configured(token_attributes=attributes()), accounts)
    asked.provide("reg.io/app", POD)
    accounts.accounts.clear()
    provision = asked.provide("reg.io/app", POD)
    assert provision.outcome is ProvisionOutcome.FAILED
    assert asked.counters.read().failures == {"service-account": 1}


def test_a_pod_it_is_not_for_is_skipped() -> None:
    """With the reason, without a run and without a failure."""
    plugin = Scripted(response())
    asked = provider(plugin, Clock(), configured(token_attributes=attributes()), Accounts({}))
    provision = asked.provide(
        "reg.io/app", Pod(namespace="ns", name="pod", uid="uid", service_account_name="")
    )
    assert provision.outcome is ProvisionOutcome.SKIPPED
    assert "requires a service account" in provision.skipped
    assert provision.error is None
    assert not plugin.runs


def test_without_a_pod_or_a_token_the_answer_is_unknown() -> None:
    """Nothing is run and nothing has failed at a plugin; for a known pod it is an error all the same."""
    plugin = Scripted(response())
    asked = provider(plugin, Clock(), configured(token_attributes=attributes()), None)
    nobody = asked.provide("reg.io/app")
    assert (nobody.outcome, nobody.missing, nobody.error) == (
        ProvisionOutcome.UNKNOWN,
        (MissingInput(input=LookupInput.POD),),
        None,
    )
    known = asked.provide("reg.io/app", POD)
    assert (known.outcome, known.missing[0].input) == (
        ProvisionOutcome.UNKNOWN,
        LookupInput.SERVICE_ACCOUNT_TOKEN,
    )
    assert isinstance(known.error, ServiceAccountError)
    assert not plugin.runs
    assert asked.counters.read().failures == {}


def test_an_optional_account_that_is_not_known_is_told_with_the_answer() -> None:
    """The plugin runs as for a pod without an account; whose answer that is, stands beside it."""
    asked = provider(
        Scripted(response()), Clock(), configured(token_attributes=attributes(require=False)), None
    )
    assert asked.provide("reg.io/app").missing == (MissingInput(input=LookupInput.POD),)
    again = asked.provide("reg.io/app")
    assert (again.outcome, again.missing) == (ProvisionOutcome.CACHED, (MissingInput(input=LookupInput.POD),))


@pytest.mark.parametrize("kind", ["Registry", "Global"])
def test_a_run_under_way_is_shared_if_it_covers_the_image(kind: str) -> None:
    """Two images of one registry make one run."""
    gate = Gate(kind)
    asked = Provider(configured(), gate, clock=Clock())
    assert asked_together(asked, gate, "reg.io/a", "reg.io/b") == [
        ProvisionOutcome.RAN,
        ProvisionOutcome.SHARED,
    ]
    assert gate.images == ["reg.io/a"]
    counts = asked.counters.read()
    assert (counts.runs, counts.shared, counts.hits) == (1, 1, 0)


def test_a_run_that_does_not_cover_the_image_is_followed_by_one_that_does() -> None:
    """An Image answer is no other image's; from then on nobody waits for one."""
    gate = Gate("Image")
    asked = Provider(configured(), gate, clock=Clock())
    assert asked_together(asked, gate, "reg.io/a", "reg.io/b") == [ProvisionOutcome.RAN, ProvisionOutcome.RAN]
    assert gate.images == ["reg.io/a", "reg.io/b"]


def test_the_same_image_shares_a_failure_and_another_does_not() -> None:
    """One failed run answers for its image alone."""
    gate = Gate("Registry", PluginExitError("plugin", 1))
    asked = Provider(configured(), gate, clock=Clock())
    assert asked_together(asked, gate, "reg.io/a", "reg.io/a") == [
        ProvisionOutcome.FAILED,
        ProvisionOutcome.FAILED,
    ]
    assert len(gate.images) == 1
    gate.running.clear()
    gate.open.clear()
    assert asked_together(asked, gate, "reg.io/a", "reg.io/b") == [
        ProvisionOutcome.FAILED,
        ProvisionOutcome.FAILED,
    ]
    assert gate.images[1:] == ["reg.io/a", "reg.io/b"]


@pytest.mark.parametrize("image", ["reg.io/a", "reg.io/b"], ids=["the same image", "another of its registry"])
def test_who_waits_for_anothers_run_waits_no_longer_than_they_said(image: str) -> None:
    """They get a failure that says so, and the run goes on for who started it."""
    gate = Gate("Registry")
    asked = Provider(configured(), gate, clock=Clock())
    found: list[ProvisionOutcome] = []
    first = threading.Thread(target=lambda: found.append(asked.provide("reg.io/a").outcome))
    first.start()
    assert gate.running.wait(10)
    for seconds in (0.0, 0.1):
        late = asked.provide(image, timeout_seconds=seconds)
        assert late.outcome is ProvisionOutcome.FAILED
        assert isinstance(late.error, PluginTimeoutError)
        assert (late.error.timeout_seconds, late.error.was_killed) == (seconds, False)
        assert "waiting for other lookups" in str(late.error)
    assert asked.counters.read().failures == {"timeout": 2}
    assert found == []
    gate.open.set()
    first.join(10)
    assert found == [ProvisionOutcome.RAN]
    assert asked.provide(image, timeout_seconds=0.1).outcome is ProvisionOutcome.CACHED


def test_without_a_deadline_of_ones_own_the_configured_one_counts() -> None:
    """Another may have given the run an hour."""
    gate = Gate("Registry")
    asked = Provider(configured(), gate, clock=Clock(), timeout_seconds=0.1)
    first = threading.Thread(target=asked.provide, args=("reg.io/a", None, 3600.0))
    first.start()
    assert gate.running.wait(10)
    late = asked.provide("reg.io/a")
    gate.open.set()
    first.join(10)
    assert isinstance(late.error, PluginTimeoutError)
    assert late.error.timeout_seconds == 0.1


def test_who_has_more_time_does_not_share_the_timeout_of_who_had_less() -> None:
    """They run the plugin themselves; who had as little time shares it."""
    gate = Gate("Registry", PluginTimeoutError("plugin", 1.0))
    asked = Provider(configured(), gate, clock=Clock())
    assert asked_together(asked, gate, "reg.io/a", "reg.io/a") == [
        ProvisionOutcome.FAILED,
        ProvisionOutcome.FAILED,
    ]
    assert len(gate.images) == 2
    gate = Gate("Registry", PluginTimeoutError("plugin", 60.0))
    asked = Provider(configured(), gate, clock=Clock())
    assert asked_together(asked, gate, "reg.io/a", "reg.io/a") == [
        ProvisionOutcome.FAILED,
        ProvisionOutcome.FAILED,
    ]
    assert len(gate.images) == 1


def test_a_run_after_waiting_has_what_is_left_of_the_time() -> None:
    """And none is made where nothing is left."""
    given: list[float | None] = []
    plugin = Scripted(response())

    def note(
        request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        given.append(timeout_seconds)
        return plugin(request)

    asked = Provider(configured(), note, clock=Clock())
    assert (
        asked.provide("reg.io/a", timeout_seconds=100, waited_seconds=101).outcome is ProvisionOutcome.FAILED
    )
    assert asked.provide("a.io/a").outcome is ProvisionOutcome.RAN
    assert asked.provide("b.io/a", timeout_seconds=100).outcome is ProvisionOutcome.RAN
    assert asked.provide("c.io/a", timeout_seconds=100, waited_seconds=90).outcome is ProvisionOutcome.RAN
    assert given[:2] == [None, 100]
    assert 0 < (given[2] or 0) <= 10


def test_the_end_of_a_run_leaves_another_of_the_same_registry_to_be_found() -> None:
    """A run that began while another was under way ends, and who asks then still shares that other one."""
    gates = {name: Gate("Registry") for name in ("slow", "quick")}
    gates["first"] = Gate("Image")

    def plugin(
        request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        answer, seconds = gates[request.image.rpartition("/")[2]](request, timeout_seconds)
        # Nothing is kept, so that what is found is a run under way.
        return CredentialProviderResponse(
            cache_key_type=answer.cache_key_type, cache_duration_ns=0, auth=answer.auth
        ), seconds

    asked = Provider(configured(), plugin, clock=Clock())
    for name in ("first", "quick"):
        gates[name].open.set()
    asked.provide("reg.io/first")  # so that runs of one registry do not wait for each other
    found: list[ProvisionOutcome] = []
    slow = threading.Thread(target=lambda: found.append(asked.provide("reg.io/slow").outcome))
    slow.start()
    assert gates["slow"].running.wait(10)
    assert asked.provide("reg.io/quick").outcome is ProvisionOutcome.RAN  # and now they do again
    late = threading.Thread(target=lambda: found.append(asked.provide("reg.io/late").outcome))
    late.start()
    wait_until_it_waits(late)
    gates["slow"].open.set()
    slow.join(10)
    late.join(10)
    assert sorted(found) == [ProvisionOutcome.RAN, ProvisionOutcome.SHARED]


def test_a_run_that_breaks_leaves_its_waiters_to_themselves() -> None:
    """Who waited for a run that ended without an answer makes one of its own."""
    gate = Gate("Registry")
    asked = Provider(configured(), Breaking(gate), clock=Clock())
    found: list[ProvisionOutcome] = []

    def break_down() -> None:
        with pytest.raises(MemoryError):
            asked.provide("reg.io/a")

    broken = threading.Thread(target=break_down)
    waiter = threading.Thread(target=lambda: found.append(asked.provide("reg.io/b").outcome))
    broken.start()
    assert gate.running.wait(10)
    waiter.start()
    wait_until_it_waits(waiter)
    gate.open.set()
    broken.join(10)
    waiter.join(10)
    assert found == [ProvisionOutcome.RAN]
    assert gate.images == ["reg.io/a", "reg.io/b"]


class Breaking:
    """A plugin whose first run breaks in a way that no one foresaw."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        """Break once the gate is open, the first time."""
        answer = self.gate(request, timeout_seconds)
        if len(self.gate.images) == 1:
            raise MemoryError
        return answer


def test_without_coalescing_every_image_runs() -> None:
    """As in the kubelet, only the very same image is shared."""
    gate = Gate("Registry")
    asked = Provider(configured(), gate, clock=Clock(), coalesce=False)
    assert asked_together(asked, gate, "reg.io/a", "reg.io/b") == [ProvisionOutcome.RAN, ProvisionOutcome.RAN]


def test_eviction_tells_whether_it_did_something() -> None:
    """Nothing cached, another credential and a second time within half a minute are no."""
    clock = Clock()
    asked = provider(Scripted(response()), clock)
    assert not asked.evict("reg.io/app", "user", "p1")
    asked.provide("reg.io/app")
    assert not asked.evict("reg.io/app", "user", "other")
    assert asked.evict("reg.io/app", "user", "p1")
    asked.provide("reg.io/app")
    assert not asked.evict("reg.io/app", "user", "p1")
    clock.step(30)
    assert asked.evict("reg.io/app", "user", "p1")


def test_a_reset_forgets_runs_and_keeps_answers() -> None:
    """After a fork no one in the child can end the parent's runs."""
    asked = provider(Scripted(response()), Clock())
    asked.provide("reg.io/app")
    asked._lock.acquire()
    asked.reset_after_fork()
    assert asked.provide("reg.io/app").outcome is ProvisionOutcome.CACHED


def test_a_refresh_replaces_a_cached_answer() -> None:
    """It runs the plugin although the answer is valid, and lookups get the new one."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, clock)
    before = asked.provide("reg.io/app").expires_ns
    clock.now += 10 * SECOND
    assert asked.refresh("reg.io/app").error is None
    after = asked.provide("reg.io/app")
    assert (after.outcome, len(plugin.requests)) == (ProvisionOutcome.CACHED, 2)
    assert before is not None
    assert after.expires_ns == before + 10 * SECOND


def test_a_failed_refresh_leaves_the_cached_answer() -> None:
    """Valid credentials go on being served, and the failure is kept for a report."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, clock)
    asked.provide("reg.io/app")
    plugin.answer = PluginExitError("p", 3, "text")
    assert asked.refresh("reg.io/app").outcome is ProvisionOutcome.FAILED
    assert asked.provide("reg.io/app").outcome is ProvisionOutcome.CACHED
    assert asked.last_failure is not None
    assert asked.last_failure.image == "reg.io/app"


def test_the_last_answer_tells_whether_it_has_a_key_for_its_image() -> None:
    """A failure leaves it; a key, which may have user info, is not in its text."""
    plugin = Scripted(response(keys=("user:hidden@reg.io",), cache_seconds=0))
    asked = provider(plugin, Clock())
    asked.provide("reg.io/app")
    first = asked.last_answer
    assert first is not None
    assert (first.image, first.has_key, "hidden" in repr(first)) == ("reg.io/app", True, False)
    plugin.answer = response(keys=("other.io", "reg.io/app/deeper"), cache_seconds=0)
    asked.provide("reg.io/app")
    plugin.answer = PluginExitError("p", 3, "text")
    asked.provide("reg.io/app")
    last = asked.last_answer
    assert last is not None
    assert not last.has_key


def test_what_is_cached_for_everybody_is_told_and_listed() -> None:
    """Who refreshes ahead learns of every new answer, with the image that it was asked for."""
    told: list[CacheEntry] = []
    clock = Clock()
    asked = Provider(
        configured(),
        Scripted(response(cache_seconds=60)),
        clock=clock,
        on_cached=lambda _, entry: told.append(entry),
    )
    asked.provide("reg.io/app")
    assert [(entry.base, entry.image) for entry in told] == [("reg.io", "reg.io/app")]
    assert asked.answers() == tuple(told)
    clock.now += 61 * SECOND
    assert asked.answers() == ()


def test_what_is_not_cached_is_not_told() -> None:
    """Nobody renews an answer that is larger than the cache, or one that was handed over and is not needed."""
    told: list[CacheEntry] = []
    plugin = Scripted(response("p" * 9_000, cache_seconds=60))
    asked = Provider(
        configured(),
        plugin,
        clock=Clock(),
        cache_limits=CacheLimits(bytes=9_000),
        on_cached=lambda _, entry: told.append(entry),
    )
    large = asked.provide("reg.io/app")
    assert (large.outcome, told, asked.answers()) == (ProvisionOutcome.RAN, [], ())
    plugin.answer = response(cache_seconds=60)
    small = asked.provide("reg.io/app")
    asked.restore("reg.io/app", small)
    assert asked.answers() == tuple(told)


def relayed(token: str, until_ns: int | None = 1 << 60, **annotations: str) -> Relayed:
    """Return what a caller passes on; its key is the whole token, which is enough for a test."""
    return Relayed(token=token, key=token.encode(), until_ns=until_ns, annotations=annotations)


def test_an_answer_for_a_relayed_token_is_for_that_token_alone() -> None:
    """Another token, with the same claims or not, runs the plugin; so does no token."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=60))
    asked = Provider(configured(token_attributes=attributes()), plugin, clock=clock)
    assert asked.provide("reg.io/app", relayed("one")).outcome is ProvisionOutcome.RAN
    assert asked.provide("reg.io/app", relayed("one")).outcome is ProvisionOutcome.CACHED
    assert asked.recall("reg.io/app", relayed("one")) is not None
    assert asked.recall("reg.io/app", relayed("two")) is None
    assert asked.provide("reg.io/app", relayed("two")).outcome is ProvisionOutcome.RAN
    assert [request.service_account_token for request in plugin.requests] == ["one", "two"]
    assert [each.is_shared for each in asked.answers()] == [False, False]
    assert [use.entries for use in asked.cache_uses()] == [0, 2]


def test_an_answer_for_a_relayed_token_ends_with_the_token() -> None:
    """It is dropped when the token expires, and never kept if that is not known or past."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=60))
    asked = Provider(configured(token_attributes=attributes()), plugin, clock=clock)
    until = clock.now + 5 * SECOND
    assert asked.provide("reg.io/app", relayed("one", until)).expires_ns == until
    clock.now = until + 1
    assert asked.recall("reg.io/app", relayed("one", until)) is None
    for ended in (None, until):
        assert asked.provide("reg.io/app", relayed("one", ended)).expires_ns is None
    assert asked.recall("reg.io/app", relayed("one", None)) is None


def test_a_relayed_token_goes_to_providers_that_ask_for_one_alone() -> None:
    """A provider without tokenAttributes answers everybody from one cache."""
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, Clock())
    asked.provide("reg.io/app", relayed("one"))
    assert asked.provide("reg.io/app", relayed("two")).outcome is ProvisionOutcome.CACHED
    assert [request.service_account_token for request in plugin.requests] == [""]


def test_a_relayed_token_without_a_required_annotation_is_not_passed_on() -> None:
    """As for a pod, the provider does not apply."""
    plugin = Scripted(response())
    config = configured(token_attributes=attributes(required=("team",)))
    asked = Provider(config, plugin, clock=Clock())
    assert asked.provide("reg.io/app", relayed("one")).outcome is ProvisionOutcome.SKIPPED
    assert asked.provide("reg.io/app", relayed("one", team="a")).outcome is ProvisionOutcome.RAN
    assert plugin.requests[0].service_account_annotations == {"team": "a"}


def test_what_is_held_has_its_beginning_and_keeps_its_number() -> None:
    """Answers of service accounts are among it; a renewal is the same answer with another life."""
    clock = Clock()
    asked = Provider(
        configured(token_attributes=attributes(require=False)),
        Scripted(response(cache_seconds=60)),
        clock=clock,
    )
    asked.provide("reg.io/app")
    asked.provide("reg.io/app", relayed("one"))
    started = clock.now
    everybody, account = asked.answers()
    assert (everybody.base, everybody.is_shared, account.is_shared) == ("reg.io", True, False)
    assert everybody.provision.got_ns == started
    assert everybody.number != account.number
    clock.now += 10 * SECOND
    asked.refresh("reg.io/app")
    [renewed] = [each for each in asked.answers() if each.is_shared]
    assert (renewed.number, renewed.provision.got_ns) == (everybody.number, started + 10 * SECOND)
    clock.now += 61 * SECOND
    assert asked.answers() == ()
