"""One JSON object, or nothing."""

from __future__ import annotations

import pytest

from keyferry._core.json import read_object


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'"x"', b"null", b'{"a": 1} {}', b"\xff\xfe{}", b"1e999x"]
)
def test_what_is_no_object_is_none(data: bytes) -> None:
    """There is no exception that could keep what was read."""
    assert read_object(data) is None


def test_an_object_is_read() -> None:
    """Text and bytes alike."""
    assert read_object(b' {"a": [1]} ') == read_object('{"a":[1]}') == {"a": [1]}
