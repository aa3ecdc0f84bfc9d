"""Who may ask for what: by rules, by kernel ids, never by what a caller says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.access import AccessPolicy, Caller
from keyferry.agent.lookups import Tenants
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from support.agents import make_token

RULES = (
    AccessRule(uids=(1000,), registries=("registry.example", "*.dkr.ecr.*.amazonaws.com/team")),
    AccessRule(gids=(50,), registries=("other.example",)),
    AccessRule(uids=(2000,), every_registry=True),
)
OWN = 990


def policy() -> AccessPolicy:
    return AccessPolicy(RULES, (ManageRule(uids=(1,), gids=(60,)),), own_uid=OWN)


@pytest.mark.parametrize(
    ("uid", "gids", "repository", "expected"),
    [
        (0, {0}, "anything.example/app", True),
        (OWN, {OWN}, "anything.example/app", True),
        (1000, {1000}, "registry.example/app", True),
        (1000, {1000}, "registry.example.evil/app", False),
        (1000, {1000}, "other.example/app", False),
        (1000, {1000, 50}, "other.example/app", True),
        (1000, {1}, "1.dkr.ecr.eu.amazonaws.com/team/app", True),
        (1000, {1}, "1.dkr.ecr.eu.amazonaws.com/other", False),
        (2000, {1}, "anything.example/app", True),
        (1001, {1001}, "registry.example/app", False),
        # A group id that equals the user id of a rule is no match, nor the reverse.
        (1001, {1000}, "registry.example/app", False),
        (50, {1}, "other.example/app", False),
        (65534, {50}, "other.example/app", False),
    ],
)
def test_a_rule_gives_its_registries_to_its_users(
    uid: int, gids: set[int], repository: str, expected: bool
) -> None:
    rights = policy().rights_of(Caller(uid=uid, gids=frozenset(gids)))
    assert rights.may_ask(repository) is expected


@pytest.mark.parametrize(
    ("uid", "gids", "expected"),
    [
        (0, {0}, True),
        (OWN, {1}, True),
        (1, {1}, True),
        (7, {60}, True),
        (2000, {1}, False),
        (65534, {60}, False),
    ],
)
def test_managing_is_a_right_of_its_own(uid: int, gids: set[int], expected: bool) -> None:
    assert policy().rights_of(Caller(uid=uid, gids=frozenset(gids))).may_manage is expected


def test_the_overflow_user_is_refused_unless_it_is_named() -> None:
    """A rule for its group does not count, one for exactly this user does."""
    rule = AccessRule(uids=(65534,), registries=("r.example",))
    named = AccessPolicy((rule,), own_uid=OWN).rights_of(Caller(uid=65534, gids=frozenset({65534})))
    assert named.may_ask("r.example/app")
    by_group = AccessRule(gids=(65534,), registries=("r.example",))
    nobody = AccessPolicy((by_group,), own_uid=OWN).rights_of(Caller(uid=65534, gids=frozenset({65534})))
    assert not nobody.has_any


def test_without_rules_only_root_and_the_own_user_have_rights() -> None:
    bare = AccessPolicy(own_uid=OWN)
    assert not bare.rights_of(Caller(uid=1000, gids=frozenset({0}))).has_any
    assert bare.rights_of(Caller(uid=OWN, gids=frozenset())).may_manage


def test_many_callers_do_not_fill_the_memory() -> None:
    asked = policy()
    for uid in range(5000):
        asked.rights_of(Caller(uid=uid, gids=frozenset({uid})))
    assert len(asked._known) <= 1024


@pytest.mark.parametrize(
    ("registries", "every_registry", "manages"),
    [(("r.example",), False, False), ((), True, False), ((), False, True)],
    ids=["a registry", "every registry", "managing"],
)
def test_one_right_is_a_right(registries: tuple[str, ...], every_registry: bool, manages: bool) -> None:
    access = (AccessRule(uids=(1000,), registries=registries, every_registry=every_registry),)
    manage = (ManageRule(uids=(1000,)),) if manages else ()
    assert AccessPolicy(access, manage, own_uid=OWN).rights_of(Caller(uid=1000, gids=frozenset())).has_any


NOW_NS, NOW = 5_000_000_000, 1_000_000.0


def tenants(secret: bytes = b"k" * 32) -> Tenants:
    return Tenants(secret, clock=lambda: NOW_NS, wall_clock=lambda: NOW)


def test_tokens_with_the_same_claims_have_different_keys() -> None:
    """A forged copy of an account's token, with another signature, is another tenant."""
    real, forged = make_token(NOW + 60, signature="good"), make_token(NOW + 60, signature="evil")
    assert tenants().relay(real, {}).key != tenants().relay(forged, {}).key


def test_keys_hold_in_one_process_only() -> None:
    """The key of the hash is random, so a key tells nothing about a token."""
    token = make_token(NOW + 60)
    assert tenants().relay(token, {}).key == tenants().relay(token, {}).key
    assert Tenants().relay(token, {}).key != Tenants().relay(token, {}).key


def test_answers_end_with_the_token() -> None:
    assert tenants().relay(make_token(NOW + 60), {}).until_ns == NOW_NS + 60_000_000_000
    assert tenants().relay(make_token(None), {}).until_ns is None
    assert tenants().relay(make_token("soon"), {}).until_ns is None
    assert tenants().relay(make_token(1e300), {}).until_ns is None
    assert tenants().relay(make_token(True), {}).until_ns is None
    assert tenants().relay(make_token(0), {}).until_ns is None
    assert tenants().relay("no-jwt", {}).until_ns is None


def test_a_token_that_is_long_past_ends_its_answers_too() -> None:
    assert tenants().relay(make_token(1), {}).until_ns == NOW_NS - int((NOW - 1) * 1_000_000_000)


def test_the_end_of_a_token_counts_even_if_its_base64_is_not_strict() -> None:
    """A plugin may be less strict than others, and accept it."""
    head, claims, signature = make_token(NOW + 60).split(".")
    relayed = tenants().relay(f"{head}.{claims[:4]}!{claims[4:]}.{signature}", {})
    assert relayed.until_ns == NOW_NS + 60_000_000_000


def test_the_token_is_in_no_repr() -> None:
    relayed = tenants().relay("secret-token", {"a": "b"})
    assert "secret-token" not in repr(relayed)
    assert repr(relayed.key) not in repr(relayed)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3))
def test_different_annotations_have_different_keys(one: dict[str, str], two: dict[str, str]) -> None:
    """However they are split into names and values."""
    same = tenants().relay("t", one).key == tenants().relay("t", two).key
    assert same is (one == two)
