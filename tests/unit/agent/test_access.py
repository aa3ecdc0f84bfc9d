"""Who may ask for what: by rules, by kernel ids, never by what a caller says."""

from __future__ import annotations

import pytest

from keyferry.agent.access import AccessPolicy, Caller
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule

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


def test_a_caller_is_judged_once() -> None:
    asked = policy()
    first = asked.rights_of(Caller(uid=1000, gids=frozenset({1})))
    asked.rights_of(Caller(uid=7, gids=frozenset({60})))
    assert asked.rights_of(Caller(uid=1000, gids=frozenset({1}))) is first


@pytest.mark.parametrize(
    ("registries", "every_registry", "manages"),
    [(("r.example",), False, False), ((), True, False), ((), False, True)],
    ids=["a registry", "every registry", "managing"],
)
def test_one_right_is_a_right(registries: tuple[str, ...], every_registry: bool, manages: bool) -> None:
    access = (AccessRule(uids=(1000,), registries=registries, every_registry=every_registry),)
    manage = (ManageRule(uids=(1000,)),) if manages else ()
    assert AccessPolicy(access, manage, own_uid=OWN).rights_of(Caller(uid=1000, gids=frozenset())).has_any
