"""What a registry asks for, read from its headers."""

from __future__ import annotations

import pytest

from keyferry.pulls.registry.tokens import Challenge, choose_challenge, parse_challenges

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
