"""JSON that is read in place of YAML says what the reader of YAML says: values, positions and keys."""

from __future__ import annotations

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from keyferry._core import yaml
from keyferry._core.documents import read_yaml
from keyferry._core.positions import Positions
from keyferry.errors import DocumentError

Outcome = tuple[object, dict[tuple[str | int, ...], object], object] | str

_TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    [
        "",
        "<<",
        "=",
        "~",
        "null",
        "1",
        "0x1",
        "*a",
        "&a",
        "- ",
        ": ",
        "a: b",
        "#",
        "%",
        "---",
        "\t",
        "\\",
        '"',
        "a" * 1100,
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-20, 20)
    | st.integers(-(2**66), 2**66)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)
_BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "  \n", "\t", "\r\n", "\r"])


@st.composite
def json_texts(draw: st.DrawFn) -> bytes:
    """JSON in all the layouts that it can have."""
    text = json.dumps(draw(st.dictionaries(_TEXT, _VALUES, max_size=4)), ensure_ascii=draw(st.booleans()))
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', text)
    blanks = [draw(_BLANKS) for _ in pieces]
    return "".join(blank + piece for blank, piece in zip(blanks, pieces, strict=True)).encode()


def outcome(data: bytes) -> Outcome:
    try:
        document = read_yaml(data)
    except DocumentError as error:
        return str(error)
    return document.value, dict(document.positions), document.duplicates


def outcome_of_yaml(data: bytes) -> Outcome:
    try:
        value, root, duplicates = yaml.load(data)
    except DocumentError as error:
        return str(error)
    return value, dict(Positions(lambda: root)), duplicates


@given(json_texts())
@example(b'{"a": 1, "a": 2}')
@example(b'{"a"\n:1}')
@example(b'{"a":1.0, "b": 1e3, "c": -0, "d": 00}')
@example(b'{"' + b"k" * 1030 + b'": 1}')
@example(b'{"a": "' + b"v" * 5000 + b'"}')
@example(b'{"a": 18446744073709551616, "b": 123456789012345678}')
@example(b' {"a": "b: #c", "d":[1,-2,true,false,null,{}]}\n')
@example(b'{"a": "x\\/y\\u0041"}')
@example(b"{" * 200 + b"}" * 200)
@example(b'{"a": 1} {"b": 2}')
@example(b'{"a": 1')
def test_json_read_in_place_of_yaml_says_the_same(data: bytes) -> None:
    """Whatever the quick reader takes it takes as YAML; the rest is read as YAML."""
    assert outcome(data) == outcome_of_yaml(data)
