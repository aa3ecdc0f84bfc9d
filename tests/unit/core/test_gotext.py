"""Text quoted as Go quotes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.gotext import quote, quote_bytewise

QUOTED = [
    pytest.param("", '""', id="empty"),
    pytest.param("plain text", '"plain text"', id="plain"),
    pytest.param('say "hi" \\ bye', r'"say \"hi\" \\ bye"', id="quote-and-backslash"),
    pytest.param("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"', id="named-escapes"),
    pytest.param("\0\x1f\x7f", r'"\x00\x1f\x7f"', id="ascii-control"),
    pytest.param("é µ 世 😀", '"é µ 世 😀"', id="printable-unicode"),
    pytest.param("\ufffd", '"\ufffd"', id="replacement-character"),
    pytest.param("\x80\u00a0\u00ad", r'"\u0080\u00a0\u00ad"', id="control-space-soft-hyphen"),
    pytest.param("\u2028\ufeff\ue000", r'"\u2028\ufeff\ue000"', id="separator-bom-private"),
    pytest.param("\U000e0001", r'"\U000e0001"', id="beyond-the-bmp"),
    pytest.param(b"a\x80\xff".decode(errors="surrogateescape"), r'"a\x80\xff"', id="bytes-not-utf8"),
    pytest.param("\ud800", '"\ufffd"', id="lone-surrogate"),
]

QUOTED_BYTEWISE = [
    pytest.param("1d", '"1d"', id="plain"),
    pytest.param('a"b\\', r'"a\"b\\"', id="quote-and-backslash"),
    pytest.param("5s\n\t", r'"5s\x0a\x09"', id="no-named-escapes"),
    pytest.param("\x7f", '"\x7f"', id="del-is-left-alone"),
    pytest.param("1µs", r'"1\xc2\xb5s"', id="non-ascii"),
    pytest.param("😀", r'"\xf0\x9f\x98\x80"', id="beyond-the-bmp"),
    pytest.param("\udc80", r'"\x80"', id="byte-not-utf8"),
    pytest.param("\ud800", r'"\xef\xbf\xbd"', id="lone-surrogate"),
]


@pytest.mark.parametrize(("text", "expected"), QUOTED)
def test_quote_is_strconv_quote(text: str, expected: str) -> None:
    assert quote(text) == expected


@pytest.mark.parametrize(("text", "expected"), QUOTED_BYTEWISE)
def test_quote_bytewise_is_the_quote_of_package_time(text: str, expected: str) -> None:
    assert quote_bytewise(text) == expected


@given(st.text(st.characters(codec=None, categories=None)))
def test_quoted_text_is_one_printable_line(text: str) -> None:
    assert quote(text).isprintable()
    assert quote_bytewise(text).replace("\x7f", "").isprintable()
    assert quote_bytewise(text).isascii()
