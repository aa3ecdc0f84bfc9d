"""Percent-encoding of single cases, and queries as a browser writes them; properties are tested elsewhere."""

from __future__ import annotations

import pytest

from keyferry._net.forms import (
    decode_percent,
    decode_query,
    encode_form,
    encode_form_text,
    encode_percent,
    encode_query,
)


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


DECODED = {
    "plain": ("abc", "abc"),
    "upper": ("%2F%3A", "/:"),
    "lower": ("%2f%3a", "/:"),
    "utf-8": ("%C3%A4", "ä"),
    "plus-stays": ("a+b", "a+b"),
    "cut": ("a%", "a%"),
    "cut-more": ("a%4", "a%4"),
    "no-digits": ("%zz", "%zz"),
    "signs-are-no-digits": ("%+1%-1% 1", "%+1%-1% 1"),
    "percent": ("%2541", "%41"),
}


@pytest.mark.parametrize("case", DECODED.values(), ids=DECODED)
def test_escapes_are_undone_once(case: tuple[str, str]) -> None:
    """And what only looks like one is left."""
    text, expected = case
    assert decode_percent(text) == expected


def test_what_is_safe_is_the_callers_to_say() -> None:
    """A path keeps its slashes."""
    assert encode_percent("/a b/ä~", safe="/") == "/a%20b/%C3%A4~"
    assert encode_percent("/a b/") == "%2Fa%20b%2F"


def test_a_mapping_and_pairs_give_the_same() -> None:
    """In the order given."""
    assert (
        encode_query({"b": "1 2", "a": "&="})
        == encode_query([("b", "1 2"), ("a", "&=")])
        == "b=1%202&a=%26%3D"
    )
    assert encode_form({"b": "1 2+"}) == b"b=1+2%2B"


def test_one_text_of_a_form_has_no_mark_of_its_own() -> None:
    """So that a client's ID with a colon, and a secret of base64, arrive as they are."""
    assert encode_form_text("team:a b") == "team%3Aa+b"
    assert encode_form_text("+/=%&ä") == "%2B%2F%3D%25%26%C3%A4"
