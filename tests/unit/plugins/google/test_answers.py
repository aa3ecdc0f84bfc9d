"""Reading what token endpoints answer: lifetimes that can be believed, words that can be shown."""

from __future__ import annotations

import pytest

from keyferry.sdk.http import Reply
from keyferry_plugins.google.calls import MAX_LIFETIME_SECONDS, lifetime, refusal, told
from keyferry_plugins.oauth.answers import read_time


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (3599, 3599),
        (1.5, 1.5),
        ("3599", 3599),
        (10**30, MAX_LIFETIME_SECONDS),
        (float("inf"), MAX_LIFETIME_SECONDS),
        ("999999999999", MAX_LIFETIME_SECONDS),
    ],
)
def test_a_lifetime_is_believed_up_to_twelve_hours(value: object, seconds: float) -> None:
    """Number or digits."""
    assert lifetime(value) == seconds


@pytest.mark.parametrize("value", [None, True, 0, -5, "", "-5", "1e3", "٣", "9" * 13, float("nan"), [], {}])
def test_what_is_no_lifetime_is_none(value: object) -> None:
    """Nothing is made of it."""
    assert lifetime(value) is None


@pytest.mark.parametrize("value", [None, 5, "", "2025-06-15", "2025-06-15T16:00:00"])
def test_what_is_no_time_is_none(value: object) -> None:
    """A time has a zone."""
    assert read_time(value) is None


def test_a_time_is_in_unix_seconds() -> None:
    """Zone and fraction included."""
    assert read_time("2025-06-15T18:00:00.5+02:00") == 1_750_003_200.5 - 7_200 + 7_200


@pytest.mark.parametrize(
    "secret",
    [
        "ya29.a0AfH6SM-x_y",
        "1//0gSecretRefresh",
        "GOCSPX-abc_def-1",
        "eyJhbGciOiJSUzI1NiJ9.e30.sig",
        "plain-known",
    ],
)
def test_no_secret_is_shown(secret: str) -> None:
    """Google's shapes, web tokens, and what is known to be one."""
    shown = told(f"bad <{secret}> here", ("plain-known",))
    assert secret not in shown
    assert shown.startswith("bad <")
    assert shown.endswith("> here")


def test_a_known_secret_is_masked_as_a_whole() -> None:
    """Also where a part of it looks like a token, and the rest like nothing."""
    assert told("found ya29.begin,and-the-end there", ("ya29.begin,and-the-end",)) == "found ******** there"


def test_what_a_server_says_is_bounded_and_printable() -> None:
    """One line without control characters."""
    assert told("a\x1b[2Jb\n  c" + "x " * 500).startswith("a\ufffd[2Jb c")
    assert len(told("x " * 500)) < 310


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": "invalid_grant", "error_description": "Bad Request"}', " (invalid_grant: Bad Request)"),
        (b'{"error": {"status": "DENIED", "message": "no", "secret": "x"}}', " (DENIED: no)"),
        (b'{"error": 5, "secret": "x"}', ""),
        (b"<html>secret</html>", ""),
    ],
)
def test_only_known_fields_of_an_error_are_shown(body: bytes, reason: str) -> None:
    """Never the body."""
    error = refusal(Reply(url="https://x/token", status=400, headers=(), body=body), "no token", "do that")
    assert str(error) == f"no token: https://x/token answered status 400{reason}; do that"
