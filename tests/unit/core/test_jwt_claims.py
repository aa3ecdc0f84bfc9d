"""The parts of a JSON web token, which nobody has verified."""

from __future__ import annotations

import pytest

from keyferry._core.jwt_claims import JwtError, decode_segment, read_claims, read_header

NO_TOKEN = "the token is not a JSON web token"
NO_BASE64 = "a part of a JSON web token is not base64"
CLAIMS = "eyJhIjoxfQ"  # {"a":1}


@pytest.mark.parametrize(
    ("token", "claims"),
    [
        (f"e30.{CLAIMS}.", {"a": 1}),
        (f"e30.{CLAIMS}==.c2ln", {"a": 1}),
        (f"no header.{CLAIMS}.no signature", {"a": 1}),
        ("e30.eyJhIjoi_z8-In0.", {"a": "\ufffd?>"}),
        ("e30.eyJleHAiOjEuNX0.", {"exp": 1.5}),
        ("", NO_TOKEN),
        ("opaque", NO_TOKEN),
        ("e30.e30", NO_TOKEN),
        ("e30.e30.e30.e30.e30", NO_TOKEN),
        ("e30.W10.", NO_TOKEN),
        ("e30..", NO_TOKEN),
        ("e30.e30x.", NO_TOKEN),
        (f"e30.{'W1tb' * 20_000}.", NO_TOKEN),
        ("e30.!!!!.", NO_BASE64),
        ("e30.\u00e9.", NO_BASE64),
        ("e30.e30x1.", NO_BASE64),
    ],
)
def test_claims_are_read_or_the_reason_is_told(token: str, claims: object) -> None:
    """The reason does not quote the token, nor does an exception behind it."""
    if isinstance(claims, dict):
        assert read_claims(token) == claims
        return
    with pytest.raises(JwtError, match=f"^{claims}$") as caught:
        read_claims(token)
    assert caught.value.__context__ is None


def test_foreign_characters_are_skipped_on_request_only() -> None:
    """As where a token was copied with its line ends."""
    wrapped = "e30.eyJh\nIjox\nfQ==\n."
    assert read_claims(wrapped, is_strict=False) == {"a": 1}
    with pytest.raises(JwtError, match=NO_BASE64):
        read_claims(wrapped)


def test_the_header_is_the_first_part() -> None:
    assert read_header(f"{CLAIMS}.e30.") == {"a": 1}
    assert decode_segment("-_8") == b"\xfb\xff"


@pytest.mark.parametrize("skipped", ["!", "!!", "\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("claims", ["eyJhIjoxfQ", "eyJhIjoxMH0", "eyJhIjoxMDB9"], ids=["two", "one", "none"])
def test_any_number_of_characters_is_skipped_where_that_is_wanted(skipped: str, claims: str) -> None:
    """Whatever padding the part would have needed."""
    token = f"e30.{claims[:5]}{skipped}{claims[5:]}.c2ln"
    assert read_claims(token, is_strict=False) == read_claims(f"e30.{claims}.")
    with pytest.raises(JwtError, match=NO_BASE64):
        read_claims(token)
