"""What a shim reads of JSON: the members of an object as parts of its text, and the text of a string."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.bridge.shim import read_members, unquote


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


TEXT = b' {"a" : "x\\"y" ,\n"b":[1,{"c":"]}"}],"d":-1.5e+3,"e":null,"f":{}} \n'


def test_members_are_parts_of_the_text() -> None:
    assert read_members(TEXT, b"a", b"b", b"d", b"e", b"f", b"g") == {
        b"a": b'"x\\"y"',
        b"b": b'[1,{"c":"]}"}]',
        b"d": b"-1.5e+3",
        b"e": b"null",
        b"f": b"{}",
    }


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"",
            b"[]",
            b"{",
            b'{"a"',
            b'{"a":',
            b'{"a":1',
            b'{"a":1,',
            b'{"a":1,}',
            b'{,"a":1}',
            b'{"a" 1}',
            b'{"a":}',
        ),
        *(
            b'{"a":1}{}',
            b'{"a":1} x',
            b'{"a":"\n"}',
            b'{"a":"x}',
            b'{"a":"\\"}',
            b'{"a":[}]}',
            b'{"a":{]}}',
            b"{a:1}",
        ),
        *(b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", b'{"b":{"c":"}}'),
    ],
)
def test_anything_else_is_no_object(text: bytes) -> None:
    assert read_members(text, b"a") is None


DOCUMENTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=6,
)


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_every_member_of_every_object_is_found(document: dict[str, object], indent: int | None) -> None:
    text = json.dumps(document, indent=indent)
    names = [json.dumps(name)[1:-1].encode() for name in document]
    found = read_members(text.encode(), *names)
    assert found is not None
    assert {json.loads(b'"%s"' % name): json.loads(value) for name, value in found.items()} == document
