"""SHA-256 without OpenSSL."""

import hashlib

from keyferry._core.digests import sha256_of


def test_the_digest_is_that_of_all_chunks() -> None:
    assert sha256_of([b"a", b"", b"bc"]) == hashlib.sha256(b"abc").hexdigest()
