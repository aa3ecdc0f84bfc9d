"""WWW-Authenticate headers, as they are and as they might be."""

from __future__ import annotations

import pytest

from keyferry_plugins.azure.challenge import ChallengeError, parse_bearer, read_bearer, read_bearer_compat

GOOD = 'Bearer realm="https://r/t",service="r"'


@pytest.mark.parametrize(
    ("header", "parameters"),
    [
        (GOOD, {"realm": "https://r/t", "service": "r"}),
        ('bearer REALM = "https://r/t" ,  Service= "r"', {"realm": "https://r/t", "service": "r"}),
        ("BEARER realm=https://r/t, service=r", {"realm": "https://r/t", "service": "r"}),
        ('Bearer realm="a,b",service="r"', {"realm": "a,b", "service": "r"}),
        ('Bearer realm="a\\"b\\\\",service=""', {"realm": 'a"b\\', "service": ""}),
        (
            'Bearer realm="r",service="s",error="invalid_token"',
            {"realm": "r", "service": "s", "error": "invalid_token"},
        ),
        ('Bearer realm="r",service=s, Basic realm="x"', {"realm": "r", "service": "s"}),
        ("Bearer", {}),
        ("Bearer ,,,", {}),
        ('Bearer realm="r"service="s"', {"realm": "r", "service": "s"}),
        ('Basic realm="x"', None),
        ('Basic realm="x', None),
        ("", None),
        ("Bearerrealm=x", None),
    ],
)
def test_parameters_are_read(header: str, parameters: dict[str, str] | None) -> None:
    """In quotes or without, in any case, with blanks; another scheme is none of ours."""
    assert parse_bearer(header) == parameters


@pytest.mark.parametrize("header", ['Bearer realm="x', 'Bearer realm="x\\', 'Bearer realm="a",realm="b"'])
def test_what_can_be_taken_in_two_ways_is_refused(header: str) -> None:
    """An open quote, and two values for one name."""
    with pytest.raises(ChallengeError):
        parse_bearer(header)


@pytest.mark.parametrize(
    "headers",
    [[], ['Basic realm="x"'], [GOOD, GOOD], ['Bearer service="r"'], ['Bearer realm="https://r/t"']],
)
def test_there_is_one_challenge_with_realm_and_service(headers: list[str]) -> None:
    """Anything else is an error, whichever way."""
    for read in (read_bearer, read_bearer_compat):
        with pytest.raises(ChallengeError):
            read(headers)


def test_another_scheme_beside_it_disturbs_only_upstream() -> None:
    """Which wants one header."""
    headers = ['Basic realm="x"', GOOD]
    assert read_bearer(headers)["service"] == "r"
    with pytest.raises(ChallengeError):
        read_bearer_compat(headers)
