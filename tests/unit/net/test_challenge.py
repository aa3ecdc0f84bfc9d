"""WWW-Authenticate headers, read leniently or strictly."""

from __future__ import annotations

import pytest

from keyferry._net.challenge import ChallengeError, read_challenges


@pytest.mark.parametrize(
    ("header", "lenient", "strict"),
    [
        ("Bearer realm=a,realm=b", {"realm": "a"}, "it gives 'realm' twice"),
        ("Bearer REALM=a,Realm=b", {"realm": "a"}, "it gives 'realm' twice"),
        ('Bearer realm="a', {"realm": ""}, "a quote in it is not closed"),
        ('Bearer realm="a\\', {"realm": ""}, "a quote in it is not closed"),
        ('Bearer realm=a"b"', {"realm": 'a"b"'}, {"realm": "a"}),
        ('Bearer realm="a",service=s', {"realm": "a", "service": "s"}, {"realm": "a", "service": "s"}),
    ],
)
def test_what_can_be_taken_in_two_ways(header: str, lenient: object, strict: object) -> None:
    """Leniently there is always an answer; strictly it is refused."""
    assert list(read_challenges(header)) == [("bearer", lenient)]
    if isinstance(strict, dict):
        assert list(read_challenges(header, is_strict=True)) == [("bearer", strict)]
        return
    with pytest.raises(ChallengeError, match=f"^{strict}$"):
        list(read_challenges(header, is_strict=True))


def test_a_fault_in_a_later_challenge_leaves_the_first() -> None:
    """Each is read when it is asked for."""
    challenges = read_challenges('Bearer realm=a, Basic realm="b', is_strict=True)
    assert next(challenges) == ("bearer", {"realm": "a"})
    with pytest.raises(ChallengeError):
        next(challenges)
