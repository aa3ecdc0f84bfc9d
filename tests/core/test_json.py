"""JSON is accepted, refused, repaired and written as by Go's encoding/json."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._core import json as _json
from keyferry._core.json import read_object
from keyferry._core.paths import Path as DocumentPath
from keyferry.errors import DocumentError

SECRET = "hunter2"


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


DEEP = {
    "python": b"[" * 5_000 + b"]" * 5_000,
    "go": b"[" * 10_001 + b"]" * 10_001,
    "go-objects": b'{"a":' * 10_001 + b"1" + b"}" * 10_001,
    "very": b"[" * 1_000_000,
}


def refused(data: bytes) -> DocumentError:
    """The error, which keeps nothing of the document."""
    with pytest.raises(DocumentError) as caught:
        _json.loads(data)
    with pytest.raises(DocumentError) as again:
        _json.loads_with_duplicates(data)
    assert str(again.value) == str(caught.value)
    error = caught.value
    assert (error.__context__, error.__cause__) == (None, None)
    assert SECRET not in f"{error!r} {error} {error.kubernetes_text} {error.args}"
    return error


@pytest.mark.parametrize(
    "data",
    [b'{"a": "hunter2', b'"hunter2\n"', b'{"a": "hunter2"}x', b"hunter2", b"\xef\xbb\xbf{}", b"\x0c{}"],
)
def test_an_error_keeps_nothing_of_the_document(data: bytes) -> None:
    """Its words are compared with Go's in ``tests/property``."""
    assert refused(data).kind == "json-syntax"


def test_half_a_pair_in_a_text_does_not_break_its_error() -> None:
    for text in ('"\\\ud800"', '"\\u12\udc80"', "\udc80"):
        with pytest.raises(DocumentError, match="not valid JSON"):
            _json.loads(text, quoting=True)


@pytest.mark.parametrize("data", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_an_error_and_not_a_crash(data: bytes) -> None:
    """What is deeper than Go goes is refused; between that and Python's own limit, versions of Python differ."""
    try:
        _json.loads(data)
    except DocumentError as error:
        assert error.kubernetes_text == "exceeded max depth"
    else:
        assert data.count(b"[") <= _json.MAX_JSON_DEPTH


_MANY = _json.MAX_JSON_DEPTH + 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * _MANY,
        '["]",' * _MANY,
        r'["\"]}",' * _MANY,
        '{"}": [' * _MANY,
        "[" + "[]," * _MANY + "[" * _MANY,
        "[" * _MANY + "[[],{}]" * 9,
    ],
)
def test_what_is_deeper_than_go_goes_is_refused(text: str) -> None:
    """Brackets in strings and pairs that are closed hide none of it."""
    assert refused(text.encode()).kubernetes_text == "exceeded max depth"


@pytest.mark.parametrize("each", ["[],", '"[[[[",', r'"\"[{",', '{"[": {"{": []}},', "[[[[[[[[]]]]]]]],"])
def test_a_long_document_is_not_a_deep_one(each: str) -> None:
    """A page of a list has more brackets than any document may have levels."""
    found = _json.loads(f"[{each * _MANY}1]")
    assert isinstance(found, list)
    assert len(found) == _MANY + 1


def test_errors_say_where() -> None:
    error = refused(b'{"a": 1,\n "b" 2}')
    assert (error.line, error.column) == (2, 6)
    assert str(error) == "line 2, column 6: not valid JSON: expecting ':' delimiter"


REPAIRED = {
    "pair": (b'"\\ud83d\\ude00"', "\U0001f600"),
    "pair-upper-case": (b'"\\uD83D\\uDE00"', "\U0001f600"),
    "lone-high": (b'"\\ud800x"', "\ufffdx"),
    "lone-low": (b'"\\udc00x"', "\ufffdx"),
    "high-before-pair": (b'"\\ud800\\ud83d\\ude00"', "\ufffd\U0001f600"),
    "low-high": (b'"\\udc00\\ud800"', "\ufffd\ufffd"),
    "high-before-other-escape": (b'"\\ud800\\u0041"', "\ufffdA"),
    "escaped-backslash": (b'"\\\\ud800"', "\\ud800"),
    "invalid-bytes": (b'"\xff\xfe"', "\ufffd\ufffd"),
    "encoded-surrogate": (b'"a\xed\xa0\x80b"', "a\ufffd\ufffd\ufffdb"),
    "cut-character": (b'"\xf0\x9f\x98"', "\ufffd\ufffd\ufffd"),
    "overlong": (b'"\xc0\xaf"', "\ufffd\ufffd"),
    "in-key": (b'{"\\ud800": 1}', {"\ufffd": 1}),
}


@pytest.mark.parametrize(("data", "value"), REPAIRED.values(), ids=REPAIRED)
def test_what_is_no_character_becomes_the_replacement_character(data: bytes, value: object) -> None:
    assert _json.loads(data) == value


def test_huge_integers_are_read_as_numbers() -> None:
    assert _json.loads(b"[" + b"9" * 5_000 + b", 7]") == [float("inf"), 7]
    assert _json.loads_with_duplicates(b'{"a": ' + b"9" * 5_000 + b', "a": 7}') == ({"a": 7}, (("a",),))


REPEATED: dict[str, tuple[bytes, object, tuple[DocumentPath, ...]]] = {
    "none": (b'{"a": {"a": 1}}', {"a": {"a": 1}}, ()),
    "top": (b'{"a": 1, "a": 2}', {"a": 2}, (("a",),)),
    "thrice": (b'{"a": 1, "a": 2, "a": 3}', {"a": 3}, (("a",), ("a",))),
    "escaped": (b'{"a": 1, "\\u0061": 2}', {"a": 2}, (("a",),)),
    "nested": (b'{"p": [0, {"n": 1, "n": 2}]}', {"p": [0, {"n": 2}]}, (("p", 1, "n"),)),
    "in-overwritten": (b'{"a": {"x": 1, "x": 2}, "a": {}}', {"a": {}}, (("a", "x"), ("a",))),
    "other-case": (b'{"a": 1, "A": 2}', {"a": 1, "A": 2}, ()),
    "invalid-bytes": (b'{"\xff": 1, "\xfe": 2}', {"\ufffd": 2}, (("\ufffd",),)),
}


@pytest.mark.parametrize(("data", "value", "paths"), REPEATED.values(), ids=REPEATED)
def test_the_last_of_repeated_members_wins_and_each_repeat_is_listed(
    data: bytes, value: object, paths: tuple[DocumentPath, ...]
) -> None:
    assert _json.loads(data) == value
    assert _json.loads_with_duplicates(data) == (value, paths)


def test_the_list_of_repeats_is_bounded() -> None:
    data = b"{" + b",".join([b'"a": 1'] * 5_000) + b"}"
    assert len(_json.loads_with_duplicates(data)[1]) == _json.MAX_DUPLICATES


WRITTEN = {
    "order-and-spacing": ({"b": [1, True, None], "a": {}}, '{"b":[1,true,null],"a":{}}'),
    "html": ("<script>&", '"\\u003cscript\\u003e\\u0026"'),
    "separators": ("\u2028\u2029", '"\\u2028\\u2029"'),
    "short-escapes": ('"\\\b\f\n\r\t', '"\\"\\\\\\b\\f\\n\\r\\t"'),
    "control": ("\x00\x1f\x7f", '"\\u0000\\u001f\x7f"'),
    "raw": ("/'é日\U0001f600\ufffd\uffff", '"/\'é日\U0001f600\ufffd\uffff"'),
    "lone-surrogate": ("a\udcffb", '"a\ufffdb"'),
    "key": ({"<": 1}, '{"\\u003c":1}'),
}


@pytest.mark.parametrize(("value", "text"), WRITTEN.values(), ids=WRITTEN)
def test_values_are_written_as_go_writes_them(value: object, text: str) -> None:
    assert _json.dumps(value) == text


@given(VALUES, st.booleans())
def test_what_is_written_is_read_back_and_what_python_writes_as_well(value: object, ascii_only: bool) -> None:
    assert _json.loads(_json.dumps(value)) == value
    assert _json.loads_with_duplicates(_json.dumps(value).encode()) == (value, ())
    assert _json.loads(json.dumps(value, ensure_ascii=ascii_only, indent=1)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b' {"a": [1]} ', {"a": [1]}),
        ('{"a":[1]}', {"a": [1]}),
        *(
            (data, None)
            for data in (b"", b"{", b"[]", b'"x"', b"null", b'{"a": 1} {}', b"\xff\xfe{}", b"1e999x")
        ),
    ],
)
def test_what_is_no_object_is_none(data: bytes | str, value: object) -> None:
    """There is no exception that could keep what was read."""
    assert read_object(data) == value
