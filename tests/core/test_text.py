"""Text as Go writes and reads it: quoted strings, base64, parts of a JSON web token, names of Docker Hub."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.base64 import corrupt_input_text, decode_base64
from keyferry._core.docker_hub import is_default_registry, is_hub_host
from keyferry._core.gotext import quote, quote_bytewise
from keyferry._core.jwt_claims import JwtError, decode_segment, read_claims, read_header

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


# After decodeQuantum in Go's encoding/base64: the offset counts line ends, and a text that ends too early is
# faulted as many bytes back as its last group has letters.
PADDED = {
    "first-byte": (b"!!", 0),
    "after-group": (b"QUJD!", 4),
    "space": (b" QQ==", 0),
    "short-one": (b"Q", 0),
    "short-two": (b"QUJDQQ", 4),
    "short-three": (b"QUJDQUI", 4),
    "line-end-in-short": (b"Q\nU", 1),
    "padding-first": (b"=QQQ", 0),
    "padding-second": (b"Q===", 1),
    "half-padding": (b"QQ=", 3),
    "letter-in-padding": (b"QQ=Q", 2),
    "line-end-before-letter": (b"QQ=\nQ", 3),
    "after-two": (b"QQ==QQ==", 4),
    "after-one": (b"QUI=x", 4),
    "line-ends-after": (b"QQ==\r\nx", 6),
    "url-alphabet": (b"QU-_", 2),
    "not-ascii": (b"QU\xc3\xa9", 2),
}


UNPADDED = {"padding": (b"QQ==", 2), "one-letter": (b"QUJDQ", 4), "foreign": (b"QU:D", 2)}


GOOD = {
    "empty": (b"", b""),
    "one": (b"QQ==", b"A"),
    "two": (b"QUI=", b"AB"),
    "three": (b"QUJD", b"ABC"),
    "line-ends": (b"Q\r\nUJ\nD\n", b"ABC"),
    "in-padding": (b"QQ=\n=", b"A"),
    "loose-bits": (b"QR==", b"A"),
}


@pytest.mark.parametrize(("data", "offset"), PADDED.values(), ids=PADDED)
def test_the_byte_that_go_names_is_named(data: bytes, offset: int) -> None:
    assert decode_base64(data) is None
    assert corrupt_input_text(data) == f"illegal base64 data at input byte {offset}"


@pytest.mark.parametrize(("data", "offset"), UNPADDED.values(), ids=UNPADDED)
def test_without_padding_there_may_be_none(data: bytes, offset: int) -> None:
    assert decode_base64(data, padded=False) is None
    assert corrupt_input_text(data, padded=False) == f"illegal base64 data at input byte {offset}"


@pytest.mark.parametrize(("data", "decoded"), GOOD.values(), ids=GOOD)
def test_what_go_decodes_is_decoded(data: bytes, decoded: bytes) -> None:
    assert decode_base64(data) == decoded
    assert decode_base64(data.replace(b"=", b""), padded=False) == decoded


NO_TOKEN = "the token is not a JSON web token"


NO_BASE64 = "a part of a JSON web token is not base64"


CLAIMS = "eyJhIjoxfQ"  # {"a":1}


@pytest.mark.parametrize(
    ("token", "claims"),
    [
        (f"e30.{CLAIMS}.", {"a": 1}),
        (f"e30.{CLAIMS}==.c2ln", {"a": 1}),
        (f"no header.{CLAIMS}.no signature", {"a": 1}),
        ("e30.eyJhIjoi_z8-In0.", {"a": "\ufffd?>"}),
        ("e30.eyJleHAiOjEuNX0.", {"exp": 1.5}),
        ("", NO_TOKEN),
        ("opaque", NO_TOKEN),
        ("e30.e30", NO_TOKEN),
        ("e30.e30.e30.e30.e30", NO_TOKEN),
        ("e30.W10.", NO_TOKEN),
        ("e30..", NO_TOKEN),
        ("e30.e30x.", NO_TOKEN),
        (f"e30.{'W1tb' * 20_000}.", NO_TOKEN),
        ("e30.!!!!.", NO_BASE64),
        ("e30.\u00e9.", NO_BASE64),
        ("e30.e30x1.", NO_BASE64),
    ],
)
def test_claims_are_read_or_the_reason_is_told(token: str, claims: object) -> None:
    """The reason does not quote the token, nor does an exception behind it."""
    if isinstance(claims, dict):
        assert read_claims(token) == claims
        return
    with pytest.raises(JwtError, match=f"^{claims}$") as caught:
        read_claims(token)
    assert caught.value.__context__ is None


def test_the_header_is_the_first_part() -> None:
    assert read_header(f"{CLAIMS}.e30.") == {"a": 1}
    assert decode_segment("-_8") == b"\xfb\xff"


@pytest.mark.parametrize("skipped", ["!", "!!", "\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("claims", ["eyJhIjoxfQ", "eyJhIjoxMH0", "eyJhIjoxMDB9"], ids=["two", "one", "none"])
def test_any_number_of_characters_is_skipped_where_that_is_wanted(skipped: str, claims: str) -> None:
    """Whatever padding the part would have needed."""
    token = f"e30.{claims[:5]}{skipped}{claims[5:]}.c2ln"
    assert read_claims(token, is_strict=False) == read_claims(f"e30.{claims}.")
    with pytest.raises(JwtError, match=NO_BASE64):
        read_claims(token)


@pytest.mark.parametrize(
    ("image", "is_default"),
    [
        ("busybox", True), ("docker.io/x", True), ("index.docker.io/x", True), ("team/app", True),
        ("localhost/x", True), ("reg.io/x", False), ("localhost:5000/x", False), ("/x", False), ("", False),
    ],
)  # fmt: skip
def test_the_first_component_tells_the_default_registry(image: str, is_default: bool) -> None:
    """A dot or a colon makes a host of it, as in Kubernetes."""
    assert is_default_registry(image) is is_default


@pytest.mark.parametrize(
    ("host", "is_hub"),
    [
        *((host, True) for host in ("docker.io", "index.docker.io", "registry-1.docker.io")),
        *((host, False) for host in ("hub.docker.com", "reg.io", "docker.io.example", "")),
    ],
)
def test_names_of_docker_hub_count_as_one(host: str, is_hub: bool) -> None:
    """Its web site is another one."""
    assert is_hub_host(host) is is_hub
