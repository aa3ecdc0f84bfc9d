"""The cache under attack: other tenants, clocks that jump, errors, floods, registries that refuse all."""

from __future__ import annotations

import base64
import json
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import replace
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import KeyferryError, PluginExitError, PluginProtocolError
from keyferry.images.answer import ProvisionOutcome
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Pod, ServiceAccount
from keyferry.images.provider.cache import CacheLimits, account_cache_key, cache_key
from keyferry.images.provider.provider import Provider
from support.scripted import (
    SECOND,
    Accounts,
    Clock,
    Scripted,
    attributes,
    cache_entries,
    cache_hits,
    configured,
    provider,
    response,
)

IMAGE = "reg.io/team/app"
ALICE = Pod(namespace="tenant-a", name="pod", uid="pod-uid", service_account_name="builder")
BOB = Pod(namespace="tenant-b", name="pod", uid="pod-uid", service_account_name="builder")


def for_accounts(
    cache_type: str, accounts: Accounts, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
) -> tuple[Provider, Scripted, Clock]:
    clock = Clock()
    plugin = Scripted(
        lambda request: response(f"for {request.service_account_token}", cache_key_type="Global")
    )
    config = configured(token_attributes=attributes(cache_type, required=required, optional=optional))
    return provider(plugin, clock, config, accounts), plugin, clock


def password(asked: Provider, pod: Pod | None = None) -> str:
    provision = asked.provide(IMAGE, pod)
    assert provision.error is None
    return provision.auth["reg.io"].password


# Tenants.


@pytest.mark.parametrize("cache_type", ["ServiceAccount", "Token"])
def test_accounts_of_one_name_in_two_namespaces_never_share(cache_type: str) -> None:
    """A global answer for one tenant's account is not found by another tenant's of the same name."""
    accounts = Accounts(
        {("tenant-a", "builder"): ServiceAccount(uid="1"), ("tenant-b", "builder"): ServiceAccount(uid="2")}
    )
    asked, plugin, _ = for_accounts(cache_type, accounts)
    assert password(asked, ALICE) == "for token-of-1"
    assert password(asked, BOB) == "for token-of-2"
    assert password(asked, ALICE) == "for token-of-1"
    assert plugin.runs == 2


def test_an_account_made_anew_does_not_inherit_the_old_ones_answer() -> None:
    """Equal namespace, name, annotations and even token, but another UID: another key."""
    accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="old")})
    accounts.tokens["tenant-a", "builder"] = "same"
    asked, plugin, _ = for_accounts("ServiceAccount", accounts)
    asked.provide(IMAGE, ALICE)
    accounts.accounts["tenant-a", "builder"] = ServiceAccount(uid="new")
    assert asked.provide(IMAGE, ALICE).outcome is ProvisionOutcome.RAN
    assert plugin.runs == 2


def test_changed_annotations_are_another_key() -> None:
    """An account whose annotations changed is asked for anew; only listed annotations count."""
    accounts = Accounts(
        {("tenant-a", "builder"): ServiceAccount(uid="1", annotations={"role": "reader", "x": "1"})}
    )
    asked, _, _ = for_accounts("ServiceAccount", accounts, required=("role",))
    asked.provide(IMAGE, ALICE)
    accounts.accounts["tenant-a", "builder"] = ServiceAccount(
        uid="1", annotations={"role": "reader", "x": "2"}
    )
    assert asked.provide(IMAGE, ALICE).outcome is ProvisionOutcome.CACHED
    accounts.accounts["tenant-a", "builder"] = ServiceAccount(uid="1", annotations={"role": "admin"})
    assert asked.provide(IMAGE, ALICE).outcome is ProvisionOutcome.RAN


def test_a_pod_without_an_account_does_not_see_an_accounts_answer() -> None:
    """Answers for accounts and answers for nobody are kept apart, both ways."""
    accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="1")})
    config = configured(token_attributes=attributes(require=False))
    plugin = Scripted(
        lambda request: response(f"for {request.service_account_token}", cache_key_type="Global")
    )
    asked = provider(plugin, Clock(), config, accounts)
    assert password(asked, ALICE) == "for token-of-1"
    assert password(asked, None) == "for "
    assert password(asked, Pod(namespace="tenant-a")) == "for "
    assert password(asked, ALICE) == "for token-of-1"
    assert plugin.runs == 2


def test_an_answer_for_a_pod_is_never_given_to_a_lookup_without_one() -> None:
    """However often it was given to the pod."""
    accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="1")})
    asked, _, clock = for_accounts("ServiceAccount", accounts)
    providers = Providers([asked], clock=clock)
    for _ in range(3):
        providers.lookup(IMAGE, pod=ALICE)
    assert providers.lookup(IMAGE).credentials == ()
    assert [c.password for c in providers.lookup(IMAGE, pod=ALICE).credentials] == ["for token-of-1"]


def test_with_token_a_new_token_is_a_new_key() -> None:
    """With cacheType Token the answer lasts as long as the token text; with ServiceAccount it outlasts it."""
    for cache_type, how in (("Token", ProvisionOutcome.RAN), ("ServiceAccount", ProvisionOutcome.CACHED)):
        accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="1")})
        asked, _, _ = for_accounts(cache_type, accounts)
        asked.provide(IMAGE, ALICE)
        accounts.tokens["tenant-a", "builder"] = "fresh"
        assert asked.provide(IMAGE, ALICE).outcome is how


def test_an_echoed_token_is_refused_unless_the_cache_is_by_token() -> None:
    """A plugin that hands back the account's token may not have it cached beyond the token's life."""
    for cache_type in ("ServiceAccount", "Token"):
        accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="1")})
        config = configured(token_attributes=attributes(cache_type))
        plugin = Scripted(lambda request: response(request.service_account_token, cache_key_type="Global"))
        asked = provider(plugin, Clock(), config, accounts)
        provision = asked.provide(IMAGE, ALICE)
        if cache_type == "Token":
            assert provision.auth["reg.io"].password == "token-of-1"
            assert asked.provide(IMAGE, ALICE).outcome is ProvisionOutcome.CACHED
        else:
            assert isinstance(provision.error, PluginProtocolError)
            assert not provision.auth
            assert cache_entries(asked) == 0


def test_no_key_material_stands_in_the_cache() -> None:
    """The token enters cache keys as a hash only."""
    accounts = Accounts({("tenant-a", "builder"): ServiceAccount(uid="1")})
    accounts.tokens["tenant-a", "builder"] = "plain-token-text"
    asked, _, _ = for_accounts("Token", accounts)
    asked.provide(IMAGE, ALICE)
    assert asked._unrelayed_cache._entries
    assert not any(b"plain-token-text" in key for key in asked._unrelayed_cache._entries)


@pytest.mark.parametrize(
    "other", [BOB, None, Pod(namespace="tenant-a")], ids=["account", "no-pod", "no-account"]
)
def test_a_run_under_way_for_one_tenant_is_not_shared_with_another(other: Pod | None) -> None:
    """Who asks while another tenant's run is under way gets a run of its own, however wide the answer."""
    accounts = Accounts(
        {("tenant-a", "builder"): ServiceAccount(uid="1"), ("tenant-b", "builder"): ServiceAccount(uid="2")}
    )
    second: list[str] = []

    def answer(request: CredentialProviderRequest) -> CredentialProviderResponse:
        # The other tenant asks, in a thread of its own, while this run is under way.
        if request.service_account_token == "token-of-1":
            thread = threading.Thread(target=lambda: second.append(password(asked, other)))
            thread.start()
            thread.join(5)
            assert not thread.is_alive(), "it waits for a run that is not its own"
        return response(f"for {request.service_account_token}", cache_key_type="Global")

    config = configured(token_attributes=attributes(require=False))
    asked = provider(Scripted(answer), Clock(), config, accounts)
    assert password(asked, ALICE) == "for token-of-1"
    assert second == ["for token-of-2" if other is BOB else "for "]


# Keys.

PAIRS: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"namespace": "a", "name": "bc"}, {"namespace": "ab", "name": "c"}),
    ({"name": "a", "uid": "b"}, {"name": "", "uid": "ab"}),
    ({"annotations": {"a": "bc"}}, {"annotations": {"ab": "c"}}),
    ({"annotations": {"a": "b", "c": "d"}}, {"annotations": {"a": "b\0\1c\0\1d"}}),
    ({"annotations": {"a": ""}}, {"annotations": {"": "a"}}),
    ({"annotations": {}}, {"annotations": {"": ""}}),
    ({"uid": "u", "annotations": {}}, {"uid": "u\0\0\0\0", "annotations": {}}),
]


def account_key(**parts: object) -> bytes:
    filled = {"namespace": "ns", "name": "n", "uid": "u", "annotations": {}, "token_hash": "h"}
    return account_cache_key(cache_type="ServiceAccount", **(filled | parts))  # type: ignore[arg-type] # a table


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_shift_between_parts_makes_two_keys_one(one: dict[str, object], other: dict[str, object]) -> None:
    """What moves from one part of a key to the next changes the key: every part has its length in front."""
    assert account_key(**one) != account_key(**other)


@given(st.text(max_size=4), st.binary(max_size=4), st.text(max_size=4), st.binary(max_size=4))
def test_base_and_account_never_run_into_each_other(
    base: str, account: bytes, other_base: str, other_account: bytes
) -> None:
    """Two cache keys are equal only if both their parts are."""
    same = (base, account) == (other_base, other_account)
    assert (cache_key(base, account) == cache_key(other_base, other_account)) is same


@pytest.mark.parametrize("part", ["namespace", "name", "uid"])
def test_a_part_too_long_for_its_length_is_an_error(part: str) -> None:
    """A part of 65,535 bytes fits; a longer one is refused instead of wrapping its length around."""
    assert struct.pack(">H", 0xFFFF) in account_key(**{part: "x" * 0xFFFF})
    with pytest.raises(KeyferryError, match="65536 bytes"):
        account_key(**{part: "x" * 0x10000})


def test_a_monstrous_account_fails_the_provider_alone() -> None:
    """An account whose annotation fits no key is a listed failure, and no plugin runs for it."""
    accounts = Accounts(
        {("tenant-a", "builder"): ServiceAccount(uid="1", annotations={"role": "x" * 70_000})}
    )
    asked, plugin, _ = for_accounts("ServiceAccount", accounts, optional=("role",))
    provision = asked.provide(IMAGE, ALICE)
    assert provision.outcome is ProvisionOutcome.FAILED
    assert len(str(provision.error)) < 200
    assert not plugin.runs


# Time.


def cached(**settings: float | None) -> tuple[Provider, Scripted, Clock]:
    clock = Clock()
    plugin = Scripted(response(**settings))  # type: ignore[arg-type] # cache_seconds alone
    return provider(plugin, clock), plugin, clock


def test_an_entry_lives_up_to_its_last_nanosecond_and_no_longer() -> None:
    """An answer is used at its expiry instant and dropped one nanosecond later."""
    asked, _, clock = cached(cache_seconds=10)
    asked.provide(IMAGE)
    clock.step(10)
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.CACHED
    clock.now += 1
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.RAN


def test_use_does_not_lengthen_a_life() -> None:
    """Expiry does not slide: an answer in constant use still ends."""
    asked, plugin, clock = cached(cache_seconds=10)
    for _ in range(22):
        asked.provide(IMAGE)
        clock.step(1)
    assert plugin.runs == 2


def test_a_jump_ahead_ends_everything_and_a_jump_back_revives_nothing() -> None:
    """What was found expired is gone, even when the clock returns to a time where it would be good."""
    asked, plugin, clock = cached(cache_seconds=10)
    asked.provide(IMAGE)
    clock.step(1_000_000)
    plugin.answer = PluginExitError("plugin", 1)
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.FAILED
    clock.step(-1_000_000)
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.FAILED
    assert cache_entries(asked) == 0


def test_an_expired_answer_does_not_come_back_with_the_clock() -> None:
    """An answer that was found expired is not served again when the clock steps back."""
    asked, plugin, clock = cached(cache_seconds=10)
    providers = Providers([asked], clock=clock)
    for _ in range(3):
        assert providers.lookup(IMAGE).credentials
    clock.step(11)
    plugin.answer = PluginExitError("plugin", 1)
    assert providers.lookup(IMAGE).failures
    clock.step(-11)
    assert providers.lookup(IMAGE).failures


def test_the_wall_clock_is_not_asked() -> None:
    """The cache lives by the monotonic clock, which no one sets: that is the default everywhere."""
    asked = Provider(configured(), Scripted(response()))
    before = monotonic_ns()
    expires = asked.provide(IMAGE).expires_ns
    assert expires is not None
    assert before <= expires - 600 * SECOND <= monotonic_ns()


@pytest.mark.parametrize("seconds", [-1, -0.000000001, -(2**63) / SECOND])
def test_a_negative_duration_is_never_served(seconds: float) -> None:
    """A negative duration is stored already expired, as in the kubelet, and never found."""
    asked, plugin, _ = cached(cache_seconds=seconds)
    assert [asked.provide(IMAGE).outcome for _ in range(3)] == [ProvisionOutcome.RAN] * 3
    assert plugin.runs == 3


def test_a_zero_duration_is_not_kept() -> None:
    """A duration of 0, from the plugin or from the config, keeps nothing."""
    for settings in ({"cache_seconds": 0.0}, {"cache_seconds": None}):
        asked, plugin, _ = cached(**settings)
        assert [asked.provide(IMAGE).outcome for _ in range(3)] == [ProvisionOutcome.RAN] * 3
        assert cache_entries(asked) == 0
        assert plugin.runs == 3


def test_the_longest_duration_does_not_wrap_around() -> None:
    """292 years from now is in the future, however long the machine has been up."""
    clock = Clock(2**62)
    plugin = Scripted(response(cache_seconds=None))
    plugin.answer = replace(response(), cache_duration_ns=2**63 - 1)
    asked = provider(plugin, clock)
    providers = Providers([asked], clock=clock)
    for _ in range(4):
        assert providers.lookup(IMAGE).credentials
    assert plugin.runs == 1


# Errors.


def test_an_error_is_never_cached_and_replaces_nothing() -> None:
    """Failed runs leave the cache as it was, and the next lookup asks again."""
    asked, plugin, clock = cached(cache_seconds=10)
    good, plugin.answer = plugin.answer, PluginExitError("plugin", 1)
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.FAILED
    assert cache_entries(asked) == 0
    plugin.answer = good
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.RAN
    plugin.answer = PluginExitError("plugin", 1)
    assert asked.provide("reg.io/other").outcome is ProvisionOutcome.CACHED
    clock.step(11)
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.FAILED
    plugin.answer = good
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.RAN


@pytest.mark.parametrize("cache_key_type", ["", "image", "Everything"])
def test_an_answer_without_a_valid_type_is_not_kept(cache_key_type: str) -> None:
    """A refused answer does not reach the cache."""
    plugin = Scripted(response(cache_key_type=cache_key_type))
    asked = provider(plugin, Clock())
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.FAILED
    assert cache_entries(asked) == 0


def test_a_failed_lookup_is_not_kept() -> None:
    """An answer with a failure in it is given once; the next lookup asks the provider again."""
    asked, plugin, clock = cached(cache_seconds=10)
    providers = Providers([asked], clock=clock)
    good, plugin.answer = plugin.answer, PluginExitError("plugin", 1)
    assert [len(providers.lookup(IMAGE).failures) for _ in range(3)] == [1, 1, 1]
    plugin.answer = good
    assert providers.lookup(IMAGE).failures == ()


def test_a_plugin_that_breaks_in_an_unforeseen_way_blocks_nobody() -> None:
    """A bug that escapes a run leaves no run under way behind: the next lookup starts a new one."""
    asked, plugin, _ = cached(cache_seconds=10)
    good = response()

    def crash(_: CredentialProviderRequest) -> KeyferryError:
        raise MemoryError

    plugin.answer = crash  # type: ignore[assignment] # it never returns
    with pytest.raises(MemoryError):
        asked.provide(IMAGE)
    plugin.answer = good
    assert asked.provide(IMAGE).outcome is ProvisionOutcome.RAN


def test_an_empty_answer_is_cached_like_any_other() -> None:
    """No credentials is an answer too, and lasts no longer than it says."""
    asked, plugin, clock = cached(cache_seconds=10)
    plugin.answer = response(cache_seconds=10, keys=())
    assert [asked.provide(IMAGE).outcome for _ in range(2)] == [ProvisionOutcome.RAN, ProvisionOutcome.CACHED]
    clock.step(11)
    plugin.answer = response()
    assert password(asked) == "p1"


# Floods.


def test_a_flood_of_images_leaves_the_cache_bounded() -> None:
    """Images with answers of their own leave the cache within its bounds; which these are, another test says."""
    clock = Clock()
    plugin = Scripted(response(cache_key_type="Image"))
    asked = Provider(configured(), plugin, clock=clock, cache_limits=CacheLimits(entries=500))
    providers = Providers([asked], clock=clock)
    for number in range(1_000):
        providers.lookup(f"reg.io/app{number}")
        providers.lookup(f"reg.io/app{number}")
    assert cache_entries(asked) == 500
    assert plugin.runs == 1_000
    assert cache_hits(providers) == {"plugin": 1_000}


def test_a_flood_of_large_answers_leaves_the_memory_bounded() -> None:
    """Few answers of many megabytes are as much as many small ones."""
    import tracemalloc

    megabytes = 8 << 20
    clock = Clock()
    plugin = Scripted(lambda request: response(request.image.ljust(megabytes), cache_key_type="Image"))
    asked = provider(plugin, clock)
    providers = Providers([asked], clock=clock)
    tracemalloc.start()
    try:
        for number in range(20):
            providers.lookup(f"reg.io/app{number}")
            providers.lookup(f"reg.io/app{number}")
        plugin.requests.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < (64 << 20) + megabytes
    assert asked.provide("reg.io/app19").outcome is ProvisionOutcome.CACHED
    assert asked.provide("reg.io/app0").outcome is ProvisionOutcome.RAN


def test_the_oldest_answer_gives_way() -> None:
    """A full cache forgets what was stored first, and a stored answer counts as new again."""
    clock = Clock()
    asked = provider(Scripted(response(cache_key_type="Image")), clock)
    for number in range(10_001):
        asked.provide(f"reg.io/app{number}")
    assert asked.provide("reg.io/app1").outcome is ProvisionOutcome.CACHED
    assert asked.provide("reg.io/app0").outcome is ProvisionOutcome.RAN


def test_expired_answers_are_swept_out() -> None:
    """More than a quarter of an hour after the last sweep a lookup drops all that has expired."""
    clock = Clock()
    asked = provider(Scripted(response(cache_key_type="Image", cache_seconds=60)), clock)
    for number in range(10):
        asked.provide(f"reg.io/app{number}")
    clock.step(15 * 60)
    asked.provide("reg.io/app0")
    assert cache_entries(asked) == 10
    clock.now += 1
    asked.provide("reg.io/other")
    assert cache_entries(asked) == 2


# Registries that refuse.


def serving(number_of: int = 1) -> tuple[Providers, list[Scripted], Clock]:
    clock = Clock()
    plugins = [Scripted(response(f"p{number}")) for number in range(number_of)]
    asked = [provider(plugin, clock, configured(f"plugin{number}")) for number, plugin in enumerate(plugins)]
    return Providers(asked, clock=clock), plugins, clock


def first(providers: Providers) -> Credential:
    return providers.lookup(IMAGE).credentials[0]


def test_a_refused_credential_is_forgotten_once() -> None:
    """Evicting makes one fresh run; evicting its answer within half a minute does nothing more."""
    providers, (plugin,), clock = serving()
    credential = first(providers)
    for _ in range(3):
        providers.lookup(IMAGE)
    assert providers.evict(IMAGE, credential)
    for _ in range(100):
        providers.evict(IMAGE, first(providers))
    assert plugin.runs == 2
    clock.now += 30 * SECOND - 1
    assert not providers.evict(IMAGE, first(providers))
    clock.now += 1
    assert providers.evict(IMAGE, first(providers))
    first(providers)
    assert plugin.runs == 3


def test_a_refusal_of_one_image_reaches_the_answer_it_was_served_from() -> None:
    """A registry-wide answer is forgotten by an eviction for any image of that registry."""
    providers, (plugin,), _ = serving()
    credential = first(providers)
    assert providers.evict("reg.io/other/image:v1", credential)
    first(providers)
    assert plugin.runs == 2


def test_an_eviction_leaves_other_answers_alone() -> None:
    """Another credential, another registry and another provider keep what they have."""
    clock = Clock()
    one = Scripted(response("p1", keys=("reg.io", "other.io")))
    two = Scripted(response("p1", keys=("reg.io",)))
    match = ("reg.io", "other.io")
    asked = [provider(p, clock, configured(n, match_images=match)) for n, p in (("one", one), ("two", two))]
    providers = Providers(asked, clock=clock)
    credential = providers.lookup("reg.io/app").credentials[0]
    providers.lookup("other.io/app")
    wrong = Credential(
        username=credential.username, password="another", source=credential.source, key=credential.key
    )
    assert not providers.evict("reg.io/app", wrong)
    assert providers.evict("reg.io/app", credential)
    providers.lookup("reg.io/app")
    providers.lookup("other.io/app")
    assert (one.runs, two.runs) == (3, 2)


def test_no_lookup_gets_an_evicted_credential() -> None:
    """However often it was given before."""
    providers, (plugin,), _ = serving()
    for _ in range(3):
        credential = first(providers)
    plugin.answer = response("fresh")
    assert providers.evict(IMAGE, credential)
    assert first(providers).password == "fresh"


def test_a_lookup_under_way_does_not_bring_an_evicted_answer_back() -> None:
    """An answer put together while its credential is evicted is not kept for the lookups after it."""
    clock = Clock()
    plugins = [Scripted(response("refused")), Scripted(response("other"))]
    race: list[Credential] = []

    def clock_of_second() -> int:
        # Read by the second provider once the first has answered: the moment in which the race is lost.
        if race:
            providers.evict(IMAGE, race.pop())
        return clock.now

    providers = Providers(
        [
            Provider(configured("one"), plugins[0], clock=clock),
            Provider(configured("two"), plugins[1], clock=clock_of_second),
        ],
        clock=clock,
    )
    credential = first(providers)
    plugins[0].answer = response("fresh")
    race.append(credential)
    assert first(providers).password == "refused"
    assert not race
    assert [first(providers).password for _ in range(3)] == ["fresh"] * 3


def test_an_answer_ends_with_the_first_of_its_parts() -> None:
    """An answer of several providers is kept no longer than the shortest of theirs."""
    clock = Clock()
    plugins = [Scripted(response("long", cache_seconds=100)), Scripted(response("short", cache_seconds=10))]
    asked = [provider(plugin, clock, configured(f"plugin{n}")) for n, plugin in enumerate(plugins)]
    providers = Providers(asked, clock=clock)
    for _ in range(3):
        providers.lookup(IMAGE)
    clock.step(10)
    providers.lookup(IMAGE)
    assert [plugin.runs for plugin in plugins] == [1, 1]
    clock.now += 1
    providers.lookup(IMAGE)
    assert [plugin.runs for plugin in plugins] == [1, 2]


def test_hits_are_counted_once_each_and_never_uncounted() -> None:
    """The count of answers from memory only grows, through expiry and eviction."""
    providers, (plugin,), clock = serving()
    seen = 0
    for round_number in range(6):
        for _ in range(4):
            credential = first(providers)
            now = cache_hits(providers)["plugin0"]
            assert now >= seen
            seen = now
        clock.step(601)
        if round_number % 2:
            providers.evict(IMAGE, credential)
    assert plugin.runs == 6
    assert seen == 18


@pytest.mark.parametrize("seconds", [(10, 600), (600, 10)], ids=["the first", "the last"])
def test_an_answer_ends_with_whichever_provider_ends_first(seconds: tuple[float, float]) -> None:
    """Once one of several answers is over, its provider is asked anew; the others are not."""
    clock = Clock()
    plugins = [Scripted(response(f"of-{each}", cache_seconds=each)) for each in seconds]
    asked = [provider(plugin, clock, configured(f"plugin{at}")) for at, plugin in enumerate(plugins)]
    providers = Providers(asked, clock=clock)
    for _ in range(3):
        assert len(providers.lookup(IMAGE).credentials) == 2
    assert [plugin.runs for plugin in plugins] == [1, 1]
    clock.step(10)
    providers.lookup(IMAGE)
    assert [plugin.runs for plugin in plugins] == [1, 1]
    clock.step(1)
    providers.lookup(IMAGE)
    assert [plugin.runs for plugin in plugins] == [2 if each == 10 else 1 for each in seconds]


def test_the_nodes_docker_config_is_read_again_after_five_minutes(tmp_path: Path) -> None:
    """As the kubelet does, and no sooner; also where a provider's lasts longer."""
    file = tmp_path / "config.json"

    def login(name: str) -> None:
        auth = base64.b64encode(f"{name}:x".encode()).decode()
        file.write_text(json.dumps({"auths": {"reg.io": {"auth": auth}}}))

    clock = Clock()
    asked = provider(Scripted(response(cache_seconds=86_400)), clock)
    for providers in (
        Providers([], docker_config=str(file), clock=clock),
        Providers([asked], docker_config=str(file), clock=clock),
    ):
        login("old")
        assert providers.lookup(IMAGE).credentials[0].username == "old"
        assert providers.lookup(IMAGE).credentials[0].username == "old"
        login("new")
        clock.step(300)
        assert providers.lookup(IMAGE).credentials[0].username == "old"
        clock.step(1)
        assert providers.lookup(IMAGE).credentials[0].username == "new"
