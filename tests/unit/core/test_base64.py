"""Base64 is read as Go's encoding/base64 reads it, and its errors name the same byte."""

from __future__ import annotations

import pytest

from keyferry._core.base64 import corrupt_input_text, decode_base64

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
UNPADDED = {
    "padding": (b"QQ==", 2),
    "one-letter": (b"QUJDQ", 4),
    "foreign": (b"QU:D", 2),
}
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
