"""A query is read as a browser writes it, within limits."""

from __future__ import annotations

import pytest

from keyferry._net.forms import decode_query


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=x+y%2Bz%26", {"a": "x y+z&"}),
        ("a=1&a=2&=3&&b", {"a": "1", "b": ""}),
        ("a=%FF%zz", {"a": "\ufffd%zz"}),
    ],
)
def test_a_query_is_read(query: str, fields: dict[str, str]) -> None:
    """Of a name that is repeated, the first counts."""
    assert decode_query(query) == fields


def test_an_endless_query_has_an_end() -> None:
    assert len(decode_query("&".join(f"a{number}=1" for number in range(1000)))) == 100
