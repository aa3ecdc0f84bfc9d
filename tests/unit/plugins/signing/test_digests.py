"""Digests without hashlib are those of hashlib."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from keyferry_plugins.signing.digests import hmac_sha256, sha256


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_digests_are_those_of_the_standard_library(key: bytes, data: bytes) -> None:
    """Keys shorter and longer than a block, any data."""
    assert sha256(data) == hashlib.sha256(data).digest()
    assert hmac_sha256(key, data) == hmac.digest(key, data, "sha256")
