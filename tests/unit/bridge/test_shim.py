"""What a shim makes of JSON strings."""

from __future__ import annotations

import pytest

from keyferry.bridge.shim import unquote


@pytest.mark.parametrize(
    ("string", "text"),
    [
        (rb'"a\n\u00e9"', "a\n\u00e9"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\udbff\udfff"', "\U0010ffff"),
        (rb'"\udc00\udc00"', "\ufffd\ufffd"),
        (rb'"\ud800x"', "\ufffdx"),
        (rb'"\ud800\u0041"', "\ufffdA"),
        (b"1", ""),
    ],
)
def test_escapes_are_undone_and_halves_of_characters_replaced(string: bytes, text: str) -> None:
    assert unquote(string) == text.encode()
