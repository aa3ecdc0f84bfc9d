"""Percent-encoding: as the standard library's, and back again."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

from hypothesis import given
from hypothesis import strategies as st

from keyferry._net.forms import decode_percent, encode_form, encode_percent, encode_query

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PAIRS = st.lists(st.tuples(TEXT, TEXT))


@given(TEXT, st.sampled_from(["", "/", "/:@"]))
def test_encoding_is_the_standard_librarys(text: str, safe: str) -> None:
    """Byte for byte."""
    assert encode_percent(text, safe) == quote(text, safe=safe)


@given(TEXT)
def test_what_is_encoded_can_be_decoded(text: str) -> None:
    """By us and by anybody."""
    encoded = encode_percent(text)
    assert decode_percent(encoded) == text == unquote(encoded)
    assert encoded.isascii()


@given(st.binary())
def test_bytes_that_are_no_text_survive(data: bytes) -> None:
    """As the environment hands them to a program."""
    text = data.decode("utf-8", "surrogateescape")
    assert decode_percent(encode_percent(text)) == text


@given(TEXT)
def test_decoding_never_fails(text: str) -> None:
    """What is no escape stays as it is."""
    decoded = decode_percent(text)
    if "%" not in text:
        assert decoded == text


@given(PAIRS)
def test_a_form_is_the_standard_librarys(pairs: list[tuple[str, str]]) -> None:
    """And a query differs by its blanks alone."""
    assert encode_form(pairs).decode() == urlencode(pairs)
    assert encode_query(pairs) == urlencode(pairs, quote_via=quote, safe="")


@given(PAIRS)
def test_a_form_and_a_query_read_back_as_they_were(pairs: list[tuple[str, str]]) -> None:
    """In order, repeated names and empty values included."""
    for text in (encode_form(pairs).decode(), encode_query(pairs)):
        assert parse_qsl(text, keep_blank_values=True, max_num_fields=None) == pairs
