"""Our text for a JSON error is Go's, byte for byte, whatever is wrong; and names nothing where it may not."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from keyferry._core.json import loads, loads_with_duplicates
from keyferry.errors import DocumentError
from support.go_json import go_error

# fmt: off - a dense table
_PIECES = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b'"', b'"a"', b":", b",", b" ", b"\n", b"1", b"0", b"-", b".", b"e", b"+",
        b"true", b"tru", b"null", b"nul", b"false", b"x", b"'", b"\\", b"\\u", b"\\u00e9", b"\\n", b"\x01",
        b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf", b"`", b"\x00", b"NaN", b"Infinity", b"\xe2\x82", b'{"a":',
        b"[1,", b"\xef\xbf\xbd", b"\x7f",
    ]
)  # fmt: skip
# fmt: on
_TEXTS = st.lists(_PIECES, max_size=12).map(b"".join)


def _text(data: bytes, *, quoting: bool) -> str | None:
    try:
        loads(data, quoting=quoting)
    except DocumentError as error:
        return error.kubernetes_text
    return None


@given(_TEXTS)
@example(b"1.5.3")
@example(b"1.x")
@example(b"[1e+x]")
@example(b"12e5.1")
@example(b'"\\u12"')
@example(b'"\\u12')
@example(b'"\\u00e9')
@example(b'"\\\xc3\xa9"')
@example(b"[-Infinity]")
@example(b"[nope]")
@example(b'{"a":1,}')
@example(b'{"a":[1}')
@example(b"\xff\xfe{")
def test_the_text_of_a_syntax_error_is_gos(data: bytes) -> None:
    assert _text(data, quoting=True) == go_error(data)


@given(_TEXTS)
@example(b"s3cret")
@example(b"nope")
@example(b'"\\q"')
def test_without_leave_no_character_is_named(data: bytes) -> None:
    whole, hidden = go_error(data), _text(data, quoting=False)
    assert (whole is None) == (hidden is None)
    assert hidden is None or not {"`", '"', "'"} & set(hidden)


@given(_TEXTS)
def test_both_readers_say_the_same(data: bytes) -> None:
    try:
        loads_with_duplicates(data, quoting=True)
        found = None
    except DocumentError as error:
        found = error.kubernetes_text
    assert found == _text(data, quoting=True)
