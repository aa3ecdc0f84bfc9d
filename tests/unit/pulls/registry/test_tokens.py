"""Challenges and tokens of registries."""

from __future__ import annotations

import pytest

from keyferry.pulls.registry.check import check_registry
from keyferry.pulls.registry.tokens import Challenge, _find_token, choose_challenge, parse_challenges
from support.fake_cloud import Received, Reply, serving
from support.fake_registry import credential, image_of

REALM = "https://auth.example/token"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (['Basic realm="r"'], [("basic", {"realm": "r"})]),
        (["Basic"], [("basic", {})]),
        (["bAsIc ReAlM=r"], [("basic", {"realm": "r"})]),
        (
            [f'Bearer realm="{REALM}",service="s",scope="repository:a/b:pull,push"'],
            [("bearer", {"realm": REALM, "service": "s", "scope": "repository:a/b:pull,push"})],
        ),
        ([f"Bearer realm={REALM}, service=s"], [("bearer", {"realm": REALM, "service": "s"})]),
        (['Bearer realm = "x" ,\tservice\t=\ty'], [("bearer", {"realm": "x", "service": "y"})]),
        (['Bearer realm="a\\"b\\\\c,d"'], [("bearer", {"realm": 'a"b\\c,d'})]),
        (
            ['Basic realm="r", Bearer realm="x",service="s"'],
            [("basic", {"realm": "r"}), ("bearer", {"realm": "x", "service": "s"})],
        ),
        (['Basic realm="r"', 'Bearer realm="x"'], [("basic", {"realm": "r"}), ("bearer", {"realm": "x"})]),
        (["Basic, Bearer realm=x"], [("basic", {}), ("bearer", {"realm": "x"})]),
        (["Negotiate YIIb64==, Basic realm=r"], [("negotiate", {}), ("basic", {"realm": "r"})]),
        ([",, ,Basic realm=r,,"], [("basic", {"realm": "r"})]),
        (['Bearer realm="first",realm="second"'], [("bearer", {"realm": "first"})]),
        (['Bearer realm="no end'], [("bearer", {"realm": ""})]),
        ([""], []),
        (["=,\"'"], []),
        ([], []),
    ],
)
def test_challenges_are_read_as_they_are_meant(
    values: list[str], expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert parse_challenges(values) == tuple(
        Challenge(scheme=each[0], parameters=each[1]) for each in expected
    )


def test_a_token_is_preferred_to_a_password_whatever_the_order() -> None:
    challenges = parse_challenges(['Basic realm="r", Bearer realm="x"'])
    chosen = choose_challenge(challenges)
    assert chosen is not None
    assert chosen.scheme == "bearer"


@pytest.mark.parametrize("value", ["Bearer service=s", 'Bearer realm="no end', "Negotiate", "Digest realm=r"])
def test_what_cannot_be_answered_is_not_chosen(value: str) -> None:
    """A Bearer challenge without a realm is none; the Basic one beside it still counts."""
    assert choose_challenge(parse_challenges([value])) is None
    beside = choose_challenge(parse_challenges([value, "Basic realm=r"]))
    assert beside == Challenge(scheme="basic", parameters={"realm": "r"})


def test_no_header_is_long_enough_to_hurt() -> None:
    """A header of a megabyte is cut, and a thousand challenges are sixteen."""
    assert len(parse_challenges(["Basic, " * 150_000])) == 16
    assert parse_challenges(['Bearer realm="' + "a" * 1_000_000]) == (
        Challenge(scheme="bearer", parameters={"realm": ""}),
    )


@pytest.mark.parametrize(
    ("document", "token"),
    [
        (b'{"token": "a", "access_token": "b"}', "a"),
        (b'{"token": "", "access_token": "b"}', "b"),
        (b'{"token": 1, "access_token": "b"}', "b"),
        (b'{"token": "a b", "access_token": "b\\r\\nX: y"}', ""),
        (b'{"token": ""}', ""),
        (b"[]", ""),
        (b"{", ""),
    ],
)
def test_a_token_is_one_that_a_header_can_carry(document: bytes, token: str) -> None:
    assert _find_token(document) == token


@pytest.mark.parametrize("challenge", ["", "Negotiate YII=", "Digest realm=x"])
def test_a_challenge_that_nobody_here_can_meet_is_a_refusal(challenge: str) -> None:
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    with serving(lambda _: Reply(401, headers=headers)) as server:
        (attempt,) = check_registry(image_of(server), [credential()])
    assert attempt.kind == "refused"


def test_a_credential_that_was_refused_is_not_sent_again() -> None:
    """By HEAD once, and by GET once."""
    proofs: list[tuple[str, str]] = []

    def refuse(request: Received) -> Reply:
        if request.path != "/v2/":
            proofs.append((request.method, request.headers.get("authorization", "")[:5]))
        return Reply(401, headers={"WWW-Authenticate": "Basic realm=r"})

    with serving(refuse) as server:
        (attempt,) = check_registry(image_of(server), [credential()])
    assert attempt.kind == "refused"
    assert [proof for proof in proofs if proof[1]] == [("HEAD", "Basic"), ("GET", "Basic")]
