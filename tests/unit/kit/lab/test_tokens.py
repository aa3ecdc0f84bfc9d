"""What can be seen of a secret without showing it."""

from __future__ import annotations

import pytest

from keyferry.kit.lab.tokens import describe, expiry_of, skeleton
from support.kit_plugins import jwt

NOW_NS = 1_000_000_000_000_000_000


def test_the_end_of_a_token_is_read_from_it() -> None:
    """A JSON web token says when it ends."""
    import time

    end = expiry_of(jwt(600))
    assert end is not None
    assert abs(end / 1e9 - time.time() - 600) < 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "a.b.c",
        "eyJhbGciOiJub25lIn0.bm90IGpzb24.x",
        "eyJhbGciOiJub25lIn0.e30.x",
        "..",
        "é.é.é",
    ],
)
def test_other_texts_have_no_end(text: str) -> None:
    """Text that is no token, or a token that never ends, has no end."""
    assert expiry_of(text) is None


@pytest.mark.parametrize(
    ("secret", "shape"),
    [
        ("", "empty"),
        ("deadbeef", "hexadecimal, up to 8 characters"),
        ("Passw0rdPassw0rd", "letters and digits, up to 16 characters"),
        ("QUJD+/==", "base64, up to 8 characters"),
        ("with space and more", "printable ASCII, up to 32 characters"),
        ("zwölf", "other text, up to 8 characters"),
        ("x" * 20000, "letters and digits, over 16384 characters"),
    ],
)
def test_a_shape_says_no_more_than_it_should(secret: str, shape: str) -> None:
    """A shape has the alphabet and a rounded length."""
    assert describe(secret, NOW_NS) == shape


def test_the_shape_of_a_token_tells_when_it_ends() -> None:
    """A token's time is what bug reports are often about."""
    text = describe(jwt(3600))
    assert text.startswith("JWT, up to 128 characters, ends in 3")
    assert "ago" in describe(jwt(-60))


def test_a_skeleton_keeps_structure_and_the_words_of_the_protocol() -> None:
    """Nothing of a value is left but its length."""
    text = 'log: Tok3n\n{"kind":"ExecCredential","status":{"token":"s3cret"}}'
    assert skeleton(text) == 'xxx: xxx0x\n{"kind":"ExecCredential","status":{"token":"x0xxxx"}}'
