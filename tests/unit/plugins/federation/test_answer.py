"""How long a login is kept."""

import pytest

from keyferry.api.federation.v1alpha1 import CacheLifetime
from keyferry_plugins.federation.answer import kept_seconds
from support.jose_tokens import forge

NOW = 1_000_000.0
MINUTE = 60_000_000_000


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
        (CacheLifetime(()), {}, "opaque", 0),
        (CacheLifetime(("exp",)), {}, forge({"alg": "none"}, claims={"exp": "soon"}), 0),
    ],
)
def test_a_login_is_kept_for_its_lifetime_less_a_margin(
    lifetime: CacheLifetime, values: dict[str, str], password: str, kept: float
) -> None:
    assert kept_seconds(lifetime, values, password, NOW) == kept
