"""Who may ask for what: by rules, by kernel ids, never by what a caller says."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.access import AccessPolicy, Caller, EvictionLimit
from keyferry.agent.lookups import Tenants
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from support.agents import make_token

RULES = (
    AccessRule(uids=(1000,), registries=("registry.example", "*.dkr.ecr.*.amazonaws.com/team")),
    AccessRule(gids=(50,), registries=("other.example",)),
    AccessRule(uids=(2000,), every_registry=True),
    AccessRule(uids=(65534,), gids=(65534,), registries=("nobody.example",)),
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
        # The overflow user has what is given to exactly this user, and nothing by a group.
        (65534, {65534, 50}, "other.example/app", False),
        (65534, {65534}, "nobody.example/app", True),
        (1001, {0}, "anything.example/app", False),
    ],
)
def test_a_rule_gives_its_registries_to_its_users(
    uid: int, gids: set[int], repository: str, expected: bool
) -> None:
    rights = policy().rights_of(Caller(uid=uid, gids=frozenset(gids)))
    assert rights.may_ask(repository) is expected
    assert rights.has_any or not expected


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
    rights = policy().rights_of(Caller(uid=uid, gids=frozenset(gids)))
    assert rights.may_manage is expected
    assert rights.has_any or not expected


def test_a_user_whom_no_rule_names_has_no_right() -> None:
    assert not policy().rights_of(Caller(uid=1001, gids=frozenset({0}))).has_any
    assert not AccessPolicy(own_uid=OWN).rights_of(Caller(uid=1000, gids=frozenset({0}))).has_any


def test_many_callers_do_not_fill_the_memory() -> None:
    asked, limit = policy(), EvictionLimit()
    sizes = []
    for uid in range(5000):
        asked.rights_of(Caller(uid=uid, gids=frozenset({uid})))
        limit.wait_seconds(uid, float(uid))
        sizes.append(len(pickle.dumps((asked, limit))) if uid % 100 == 0 else 0)
    assert max(sizes[2500:]) <= max(sizes[:2500])


NOW_NS, NOW = 5_000_000_000, 1_000_000.0


def tenants(secret: bytes = b"k" * 32) -> Tenants:
    return Tenants(secret, clock=lambda: NOW_NS, wall_clock=lambda: NOW)


def test_keys_hold_in_one_process_only() -> None:
    """The key of the hash is random, so a key tells nothing about a token."""
    token = make_token(NOW + 60)
    assert tenants().relay(token, {}).key == tenants().relay(token, {}).key
    assert Tenants().relay(token, {}).key != Tenants().relay(token, {}).key


HEAD, CLAIMS, SIGNATURE = make_token(NOW + 60).split(".")


@pytest.mark.parametrize(
    ("token", "seconds"),
    [
        pytest.param(make_token(NOW + 60), 60, id="an end"),
        # A plugin may be less strict than others, and accept it.
        pytest.param(f"{HEAD}.{CLAIMS[:4]}!{CLAIMS[4:]}.{SIGNATURE}", 60, id="odd base64"),
        pytest.param(make_token(1), 1 - NOW, id="long past"),
        *(pytest.param(make_token(end), None, id=f"{end!r}") for end in (None, "soon", 1e300, True, 0)),
        pytest.param("no-jwt", None, id="no token"),
    ],
)
def test_answers_end_with_the_token(token: str, seconds: float | None) -> None:
    expected = None if seconds is None else NOW_NS + int(seconds * 1_000_000_000)
    assert tenants().relay(token, {}).until_ns == expected


def test_the_token_is_in_no_repr() -> None:
    relayed = tenants().relay("secret-token", {"a": "b"})
    assert "secret-token" not in repr(relayed)
    assert repr(relayed.key) not in repr(relayed)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3))
def test_different_annotations_have_different_keys(one: dict[str, str], two: dict[str, str]) -> None:
    """However they are split into names and values."""
    same = tenants().relay("t", one).key == tenants().relay("t", two).key
    assert same is (one == two)
