"""How long a login is kept."""

import pytest

from keyferry.api.federation.v1alpha1 import CacheLifetime
from keyferry.sdk import ProvideError
from keyferry_plugins.federation.answer import kept_seconds
from support.jose_tokens import forge

NOW = 1_000_000.0
MINUTE = 60_000_000_000
LEEWAY = 60


def token(seconds: int) -> str:
    """A token that expires so many seconds from now."""
    return forge({"alg": "none"}, claims={"exp": int(NOW) + seconds})


@pytest.mark.parametrize(
    ("lifetime", "values", "password", "kept"),
    [
        (CacheLifetime(("ttl",)), {"ttl": "1000"}, "opaque", 900),
        (CacheLifetime(("ttl", "exp")), {"ttl": ""}, token(1000), 900),
        (CacheLifetime(("ttl", "exp")), {"ttl": "5000"}, token(1000), 900),
        (CacheLifetime(("ttl", "exp")), {"ttl": "100"}, token(1000), 90),
        (CacheLifetime(("ttl",), None, MINUTE), {"ttl": "1000"}, "opaque", 940),
        (CacheLifetime(("ttl",), None, MINUTE), {"ttl": "30"}, "opaque", 0),
        (CacheLifetime(("ttl",), most_ns=MINUTE), {"ttl": "1000"}, "opaque", 60),
        (CacheLifetime(("ttl",), unknown_ns=MINUTE), {"ttl": "0"}, "opaque", 60),
        (CacheLifetime(("ttl",), unknown_ns=MINUTE), {}, token(10), 9),
        (CacheLifetime(("ttl",), unknown_ns=MINUTE), {"ttl": "9" * 5000}, "opaque", 60),
        (CacheLifetime(()), {}, "opaque", 0),
        (CacheLifetime(("exp",)), {}, forge({"alg": "none"}, claims={"exp": "soon"}), 0),
    ],
)
def test_a_login_is_kept_for_its_lifetime_less_a_margin(
    lifetime: CacheLifetime, values: dict[str, str], password: str, kept: float
) -> None:
    assert kept_seconds(lifetime, values, password, NOW) == kept


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nbf": NOW + LEEWAY + 1}, "not valid yet"),
        ({"exp": NOW}, "expired already"),
        ({"exp": NOW - 1000}, "expired already"),
    ],
)
def test_a_token_that_does_not_hold_now_is_refused(claims: dict[str, object], problem: str) -> None:
    with pytest.raises(ProvideError, match=problem):
        kept_seconds(CacheLifetime(("exp",)), {}, forge({"alg": "none"}, claims=claims), NOW)


@pytest.mark.parametrize("start", [NOW - 1000, NOW + LEEWAY, True, "soon"])
def test_clocks_may_differ_a_little(start: object) -> None:
    password = forge({"alg": "none"}, claims={"nbf": start, "exp": NOW + 1000})
    assert kept_seconds(CacheLifetime(("exp",)), {}, password, NOW) == 900
