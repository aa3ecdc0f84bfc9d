"""Tokens are renewed only where that can change the answer, and taken only if they can be sent."""

from __future__ import annotations

import pytest

from keyferry.pulls.registry.check import check_registry
from keyferry.pulls.registry.tokens import _find_token
from support.fake_cloud import Received, Reply, serving
from support.fake_registry import credential, image_of


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
