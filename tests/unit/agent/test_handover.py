"""A cache that is handed over arrives whole; what is no cache, or another version's, is passed over."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from keyferry import __version__
from keyferry.agent.management import hand_over_reply, take_over_entries
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.load import exec_plugin
from keyferry.images.lookup import Providers
from keyferry.images.provider.provider import Provider
from support.scripted import SECOND, Clock, Scripted, configured, response


def world(clock: Clock, default_seconds: float = 0) -> tuple[Scripted, Providers]:
    plugin = Scripted(response(cache_seconds=600))
    config = configured(default_seconds=default_seconds)
    return plugin, Providers([Provider(config, plugin, clock=clock)], clock=clock)


def handed_over(clock: Clock) -> dict[str, object]:
    _, first = world(clock)
    first.lookup("reg.io/app")
    clock.step(100)
    found = json.loads(hand_over_reply(first, clock.now).body)
    assert isinstance(found, dict)
    return found


def test_the_successor_has_the_answers_with_the_time_that_is_left() -> None:
    """On a clock of its own, which has another zero."""
    document, later = handed_over(Clock()), Clock(7 * SECOND)
    plugin, second = world(later)
    assert take_over_entries(second, document, later.now) == 1
    [provision] = second.lookup("reg.io/other").provisions
    assert (provision.outcome, provision.expires_ns) == (ProvisionOutcome.CACHED, 507 * SECOND)
    assert provision.got_ns == (7 - 100) * SECOND
    assert plugin.runs == 0


def test_another_version_or_another_config_gives_nothing() -> None:
    clock = Clock()
    document = handed_over(clock)
    assert take_over_entries(world(clock)[1], document | {"version": "9"}, clock.now) == 0
    assert take_over_entries(world(clock, 60)[1], document, clock.now) == 0


def in_bin_dir(clock: Clock, bin_dir: str) -> Providers:
    """Return a provider whose plugin would be run from this folder."""
    config = configured()
    return Providers([Provider(config, exec_plugin(config, bin_dir), clock=clock)], clock=clock)


def test_the_same_name_in_another_bin_dir_is_another_plugin() -> None:
    clock = Clock()
    first = in_bin_dir(clock, "/one")
    provision = Provision(
        provider="plugin",
        outcome=ProvisionOutcome.CACHED,
        auth={"reg.io": AuthConfig(username="u", password="of one")},
        cache_key_type="Registry",
        expires_ns=clock.now + 60 * SECOND,
    )
    first.providers[0].restore("reg.io/app", provision)
    document = json.loads(hand_over_reply(first, clock.now).body)
    assert take_over_entries(in_bin_dir(clock, "/two"), document, clock.now) == 0
    assert take_over_entries(in_bin_dir(clock, "/one"), document, clock.now) == 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["plugin", "Registry", "reg.io/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = ("provider", "config", "image", "cacheKeyType", "millisecondsLeft", "millisecondsOld", "auth")


@given(st.lists(st.dictionaries(st.sampled_from(names), values) | values, max_size=4))
def test_what_is_no_cache_does_no_harm(entries: list[object]) -> None:
    clock = Clock()
    _, second = world(clock)
    assert take_over_entries(second, {"version": __version__, "entries": entries}, clock.now) == 0
