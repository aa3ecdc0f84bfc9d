"""YAML and JSON texts give the values, positions and failures that Kubernetes' readers give."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from keyferry._core import yaml as _yaml
from keyferry._core.documents import Document, read_document, read_json, read_yaml
from keyferry._core.paths import format_path
from keyferry._core.positions import MAX_DOCUMENT_DEPTH, Position
from keyferry.errors import DocumentError

CONFIG = b"""\
providers:
- name: a
  matchImages:
  - one
  - two
"""


def refused(data: bytes, *, quoting: bool = True) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_document(data, quoting=quoting)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    return caught.value


# fmt: off - dense tables
SCALARS: dict[str, object] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **{word: word for word in ["yEs", "nULL", "=", "<<", "2020-01-01", "2020-01-01T00:00:00Z", "1:30", "5m"]},
    **{word: word for word in ["0x", "0o8", "0b2", "+", ".", "1e", "1e400", "_1", "1.2.3", ".5_0", "0xg"]},
    "0": 0,
    "-0": 0,
    "12": 12,
    "+12": 12,
    "-12": -12,
    "1_000": 1000,
    "010": 8,
    "-010": -8,
    "0o7": 7,
    "00": 0,
    "0x10": 16,
    "0X1F": 31,
    "-0x10": -16,
    "0b11": 3,
    "-0b11": -3,
    "089": 89,
    "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 2**64,
    "0x1ffffffffffffffff": "0x1ffffffffffffffff",
    "1.5": 1.5,
    "1.": 1,
    ".5": 0.5,
    "-.5": -0.5,
    "1e3": 1000,
    "2e-3": 0.002,
    "1e30": 1e30,
    "'yes'": "yes",
    '"1"': "1",
    "!!str yes": "yes",
    "!!str": "",
    "!foo 1": "1",
    '! "5"': 5,
    "!!int '0x10'": 16,
    "!!float 1": 1,
    "!!bool on": True,
    "!!null ~": None,
    "!!timestamp 2020-01-01": "2020-01-01",
    "!!binary aGk=": "hi",
    "!!binary /w==": "\ufffd",
    "!!python/name:os.system x": "x",
    "!!python/object/apply:os.system [ls]": ["ls"],
    "!!set {a: }": {"a": None},
    '"a\\x41"': "aA",
    "'it''s'": "it's",
    "| \n  lit\n": "lit\n",
    ">-\n  two\n  lines\n": "two lines",
    "[1, {a: b}]": [1, {"a": "b"}],
}


KEYS = {
    "a": "a",
    "true": "true",
    "No": "false",
    "1": "1",
    "0x10": "16",
    "'1'": "1",
    "2020-01-01": "2020-01-01",
    "1.5": "1.5",
    "0.1": "0.1",
    "1e3": "1000",
    "1e6": "1e+06",
    "1234567.5": "1.2345675e+06",
    "1e-5": "1e-05",
    ".inf": ".inf",
    "-.inf": "-.inf",
    ".nan": ".nan",
    "1e300": ".inf",
    "-1e300": "-.inf",
    "3.4028234e38": "3.4028235e+38",
    "-0.0": "-0",
    "? a\n": "a",
    "'<<'": "<<",
}


# fmt: on
@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=map(repr, SCALARS))
def test_scalars_resolve_as_in_go_yaml(text: str, value: object) -> None:
    found = read_yaml(f"d: {text}\n".encode()).value
    assert found == {"d": value}
    assert isinstance(found, dict)
    assert isinstance(found["d"], bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("text", "name"), [(".inf", "+Inf"), ("+.INF", "+Inf"), ("-.Inf", "-Inf"), (".nan", "NaN")]
)
def test_numbers_json_cannot_write_are_refused(text: str, name: str) -> None:
    error = refused(f"a: 1\nd: [{text}]".encode())
    assert error.kubernetes_text == f"json: unsupported value: {name}"
    assert (error.kind, error.line, error.column) == ("other", 2, 5)


@pytest.mark.parametrize(("text", "name"), KEYS.items(), ids=KEYS)
def test_keys_become_strings(text: str, name: str) -> None:
    assert read_yaml(f"{text}: v\n".encode()).value == {name: "v"}


YAML_ERRORS = {
    "unknown-anchor": (b"a:\n- *nope", "yaml: unknown anchor 'nope' referenced", 2),
    "self-reference": (b"a: &x {b: *x}", "yaml: anchor 'x' value contains itself", 1),
    "recursive-merge": (b"a: &a {<<: *a}", "yaml: anchor 'a' value contains itself", 1),
    "deep-and-open": (b"[" * 2_000, "yaml: line 1: did not find expected node content", 2),
    "yaml-1.2": (b"%YAML 1.2\n---\na: 1", "yaml: found incompatible YAML document", 1),
    "yaml-1.2-later": (b"# c\n%YAML 1.2\n---\na: 1", "yaml: line 1: found incompatible YAML document", 2),
    "colon": (b"a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context", 2),
    "open-quote": (b"a: 1\nb: 'c\n", "yaml: line 3: found unexpected end of stream", 3),
    "open-flow": (b"a: 1\nb: [c\n", "yaml: line 2: did not find expected ',' or ']'", 3),
    "tab": (b"a:\n\tb: 1", "yaml: line 2: found character that cannot start any token", 2),
    "invalid-utf-8": (b"a: 1\nb: caf\xe9\nc: d", "yaml: invalid trailing UTF-8 octet", 2),
    "control": (b"a: 1\nb: \x01", "yaml: control characters are not allowed", 2),
    "control-utf-16": ("a: 1\nb: \x01".encode("utf-16"), "yaml: control characters are not allowed", 2),
    "tag-no-text": (b"a: !%ED%A0%80 b", "yaml: unknown problem parsing YAML content", 1),
    "list-as-key": (b"[a]: b", "yaml: invalid map key", 1),
    "mapping-as-key": (b"? {a: b}\n: c", "yaml: invalid map key", 1),
    "merge-scalar": (b"a:\n  <<: 5", "yaml: map merge requires map or sequence of maps as the value", 2),
    "merge-list": (b"a:\n  <<: [5]", "yaml: map merge requires map or sequence of maps as the value", 2),
    "merge-alias": (
        b"l: &l [{}]\n<<: *l",
        "yaml: map merge requires map or sequence of maps as the value",
        2,
    ),
    "bad-int": (b"a: !!int x", "yaml: cannot decode !!str `x` as a !!int", 1),
    "bad-null": (b"a: !!null x", "yaml: cannot decode !!str `x` as a !!null", 1),
    "bad-binary": (b"a: !!binary '*'", "yaml: !!binary value contains invalid base64 data", 1),
}


@pytest.mark.parametrize(("data", "text", "line"), YAML_ERRORS.values(), ids=YAML_ERRORS)
def test_broken_yaml_is_refused_in_go_s_words(data: bytes, text: str, line: int) -> None:
    error = refused(data)
    assert (error.kubernetes_text, error.line) == (text, line)
    assert error.kind == "yaml-syntax"
    assert str(error)[-1] != "."


# As sigs.k8s.io/yaml prints them: "unsupported map key of type: %s, key: %+#v, value: %+#v".
NAMELESS_KEYS = {
    "null": (b"~: a", '%!s(<nil>), key: <nil>, value: "a"'),
    "empty": (b"? \n: a", '%!s(<nil>), key: <nil>, value: "a"'),
    "uint64": (b"18446744073709551615: v", 'uint64, key: 0xffffffffffffffff, value: "v"'),
    "no-value": (b"~:", "%!s(<nil>), key: <nil>, value: <nil>"),
    "numbers": (
        b"~: [1, -2, 1.5, 1e6, 1.0, 0.00001, 9223372036854775808]",
        "%!s(<nil>), key: <nil>, value: []interface {}{1, -2, 1.5, 1e+06, 1, 1e-05, 0x8000000000000000}",
    ),
    "infinite": (b"~: -.inf", "%!s(<nil>), key: <nil>, value: -Inf"),
    "no-number": (b"~: .nan", "%!s(<nil>), key: <nil>, value: NaN"),
    "mapping": (
        b"a: {~: {b: no, a: 'x\"'}}",
        '%!s(<nil>), key: <nil>, value: map[interface {}]interface {}{"a":"x\\"", "b":false}',
    ),
}


@pytest.mark.parametrize(("data", "rest"), NAMELESS_KEYS.values(), ids=NAMELESS_KEYS)
def test_keys_without_a_json_name_are_refused_in_kubernetes_words(data: bytes, rest: str) -> None:
    error = refused(data)
    assert error.kind == "other"
    assert error.kubernetes_text == f"unsupported map key of type: {rest}"
    kind = rest.partition(",")[0]
    assert refused(data, quoting=False).kubernetes_text == f"unsupported map key of type: {kind}"


def test_a_value_beside_a_nameless_key_is_not_quoted_without_end() -> None:
    """A few aliases make a value of thousands of nodes, which no error repeats."""
    error = refused(b"a: &a [" + b"1," * 40 + b"]\nb: &b [" + b"*a," * 40 + b"]\n~: *b\n")
    assert error.kubernetes_text == "unsupported map key of type: %!s(<nil>)"


UNQUOTED = {
    "json": (b'{"a": s3cret}', "invalid character looking for beginning of value"),
    "escape": (b'{"a": "\\s3cret"}', "invalid escape sequence in string"),
    "anchor": (b"a: *s3cret", "yaml: unknown anchor referenced"),
    "circle": (b"a: &s3cret [*s3cret]", "yaml: anchor value contains itself"),
    "tag": (b"a: !!int s3cret", "yaml: cannot decode !!str as a !!int"),
    "key": (b"~: s3cret", "unsupported map key of type: %!s(<nil>)"),
}


@pytest.mark.parametrize(("data", "text"), UNQUOTED.values(), ids=UNQUOTED)
def test_nothing_is_quoted_without_leave(data: bytes, text: str) -> None:
    assert refused(data, quoting=False).kubernetes_text == text
    assert refused(data).kubernetes_text != text


STREAMS: dict[str, tuple[bytes, object]] = {
    "nothing": (b"", None),
    "blank": (b" \n\n", None),
    "comment": (b"# only\n", None),
    "null": (b"null\n", None),
    "empty-first": (b"---\n---\na: 1\n", None),
    "second-ignored": (b"a: 1\n---\nb: 2\n", {"a": 1}),
    "second-broken": (b"a: 1\n---\n\t{", {"a": 1}),
    "end-marker": (b"a: 1\n...\n", {"a": 1}),
    "yaml-1.1": (b"%YAML 1.1\n---\na: 1", {"a": 1}),
    "scalar": (b"hello\n", "hello"),
    "list": (b"[1, 2]", [1, 2]),
    "bom": (b"\xef\xbb\xbfa: 1", {"a": 1}),
    "bom-and-json": (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    "utf-16-le": (b"\xff\xfe" + "a: é".encode("utf-16-le"), {"a": "é"}),
    "utf-16-be": (b"\xfe\xff" + "a: é".encode("utf-16-be"), {"a": "é"}),
    "crlf": (b"a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    "alias": (b"a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}),
    "anchor-again": (b"a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    "alias-key": (b"a: &x k\n*x : 1", {"a": "k", "k": 1}),
}


@pytest.mark.parametrize(("data", "value"), STREAMS.values(), ids=STREAMS)
def test_the_first_document_of_a_stream_is_read(data: bytes, value: object) -> None:
    document = read_document(data)
    assert (document.value, document.format, document.duplicates) == (value, "yaml", ())


@pytest.mark.parametrize("data", [v for v, _ in STREAMS.values()], ids=STREAMS)
def test_the_parser_without_libyaml_reads_alike(data: bytes) -> None:
    with_c, in_python = _yaml.load(data), _yaml.load(data, in_python=True)
    assert (in_python[0], in_python[2]) == (with_c[0], with_c[2])


# Value of the last entry, then path, line and first line of each repeated key, and the line go-yaml names.
BASE = b"b: &b {k: 1, l: 2}\nc: &c {k: 3}\nd:\n  "


REPEATS: dict[str, tuple[bytes, object, list[tuple[str, int, int, int]]]] = {
    "explicit": (b"d: 0\nd:\n- 1\nd: 2", 2, [("d", 2, 1, 3), ("d", 4, 1, 4)]),
    "kinds-differ": (b"1: a\n'1': b\nd: 0", 0, []),
    "kinds-agree": (b"1: a\n0x1: b\nd: 0", 0, [("1", 2, 1, 2)]),
    "merge": (BASE + b"<<: *b", {"k": 1, "l": 2}, []),
    "merge-inline": (BASE + b"<<: {k: 5}", {"k": 5}, []),
    "merge-then-key": (BASE + b"<<: *b\n  k: 9", {"k": 9, "l": 2}, [("d.k", 5, 4, 5)]),
    "key-then-merge": (BASE + b"k: 9\n  <<: *b", {"k": 1, "l": 2}, [("d.k", 5, 4, 1)]),
    "merge-list": (BASE + b"<<: [*b, *c]", {"k": 1, "l": 2}, [("d.k", 4, 4, 1)]),
    "merge-repeating": (BASE + b"<<: {k: 1,\n    k: 2}", {"k": 2}, [("d.k", 5, 4, 5)]),
    "merge-list-repeating": (BASE + b"<<: [{k: 1,\n    k: 2}]", {"k": 2}, [("d.k", 5, 4, 5)]),
    "quoted-is-no-merge": (BASE + b"'<<': *c", {"<<": {"k": 3}}, []),
    "in-list": (b"d:\n- 0\n- a: 1\n  a: 2", [0, {"a": 2}], [("d[1].a", 4, 3, 4)]),
}


@pytest.mark.parametrize(("data", "value", "repeats"), REPEATS.values(), ids=REPEATS)
def test_repeated_keys_overwrite_and_are_recorded(
    data: bytes, value: object, repeats: list[tuple[str, int, int, int]]
) -> None:
    document = read_yaml(data)
    assert isinstance(document.value, dict)
    assert document.value["d"] == value
    found = [
        (format_path(d.path), d.position.line, d.first.line, d.kubernetes_line) for d in document.duplicates
    ]
    assert found == repeats


def test_repeated_json_keys_are_recorded_with_positions() -> None:
    document = read_json(b'{"p": [0, {"n": 1,\n  "\\u006e": 2,\n  "n": 3}]}')
    assert document.value == {"p": [0, {"n": 3}]}
    found = [(d.path, d.position, d.first, d.kubernetes_line) for d in document.duplicates]
    path, first = ("p", 1, "n"), Position(line=1, column=12)
    assert found == [
        (path, Position(line=2, column=3), first, 0),
        (path, Position(line=3, column=3), first, 0),
    ]


def test_the_record_of_repeated_keys_is_bounded() -> None:
    assert len(read_yaml(b"a: 1\n" * 1_000).duplicates) == 100
    assert len(read_json(b"{" + b",".join([b'"a":1'] * 1_000) + b"}").duplicates) == 100


def test_positions_are_those_of_keys_and_items() -> None:
    expected = {
        (): Position(line=1, column=1),
        ("providers",): Position(line=1, column=1),
        ("providers", 0): Position(line=2, column=3),
        ("providers", 0, "name"): Position(line=2, column=3),
        ("providers", 0, "matchImages"): Position(line=3, column=3),
        ("providers", 0, "matchImages", 0): Position(line=4, column=5),
        ("providers", 0, "matchImages", 1): Position(line=5, column=5),
    }
    positions = read_yaml(CONFIG).positions
    assert list(positions.items()) == list(expected.items())
    assert len(positions) == len(expected)


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_json_positions_are_those_of_keys_and_items(read: Callable[[bytes], Document]) -> None:
    """Whichever reader it is given to."""
    positions = read(b' {"a": [1,\n  {"b": "]"}, []],\n "\xc3\xa9\\n": {}}').positions
    assert dict(positions) == {
        (): Position(line=1, column=2),
        ("a",): Position(line=1, column=3),
        ("a", 0): Position(line=1, column=9),
        ("a", 1): Position(line=2, column=3),
        ("a", 1, "b"): Position(line=2, column=4),
        ("a", 2): Position(line=2, column=15),
        ("é\n",): Position(line=3, column=2),
    }


def test_a_merged_entry_is_where_it_was_written_and_an_alias_where_it_stands() -> None:
    document = read_yaml(b"a: &a\n  k: [1]\nb:\n  <<: *a\nc: *a\n")
    assert document.position(("b", "k")) == Position(line=2, column=3)
    assert document.position(("c",)) == Position(line=5, column=1)
    assert document.position(("c", "k", 0)) == Position(line=2, column=7)


def test_an_unknown_path_has_the_position_of_its_nearest_ancestor() -> None:
    document = read_yaml(CONFIG)
    assert document.position(("providers", 0, "env", 3, "value")) == Position(line=2, column=3)
    assert document.position(("absent",)) == Position(line=1, column=1)
    assert ("providers", 0, "name", "x") not in document.positions


def test_the_value_is_not_shown() -> None:
    assert "hunter2" not in repr(read_yaml(b"token: hunter2"))


@pytest.mark.parametrize(
    ("data", "error_class"),
    [
        (b'{"a": 1}', None),
        (b' \n\t{"a": 1}\n', None),
        (b'{"a": 1}{', "json-syntax"),
        (b"{a: b}", "json-syntax"),
        (b'{"a": 1,}', "json-syntax"),
        (b'\x0b{"a": 1}', "json-syntax"),
        (b'\xc2\xa0{"a": 1}', "json-syntax"),
    ],
)
def test_text_that_starts_with_a_brace_is_json(data: bytes, error_class: str | None) -> None:
    if error_class is None:
        document = read_document(data)
        assert (document.value, document.format) == ({"a": 1}, "json")
    else:
        assert refused(data).kind == error_class


def test_kubeconfigs_may_be_flow_mappings() -> None:
    assert read_yaml(b"{a: b, c: [1,]}").value == {"a": "b", "c": [1]}


def levels(item: str, count: int) -> str:
    """Return so many levels of lists, each with ten aliases of the one before."""
    lines = [f"a{n}: &a{n} " + item % ", ".join([f"*a{n - 1}"] * 10) for n in range(1, count)]
    return "\n".join(["a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(10)) + "}", *lines])


BOMBS = {
    "aliases": (levels("[%s]", 30), "yaml: document contains excessive aliasing"),
    "one-too-deep": (
        "[" * (MAX_DOCUMENT_DEPTH + 1) + "]" * (MAX_DOCUMENT_DEPTH + 1),
        "yaml: exceeded max depth of 10000",
    ),
    "json": ('{"a":' * (MAX_DOCUMENT_DEPTH + 1) + "1" + "}" * (MAX_DOCUMENT_DEPTH + 1), "exceeded max depth"),
}


@pytest.mark.parametrize(("text", "kubernetes_text"), BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_in_go_s_words(text: str, kubernetes_text: str) -> None:
    assert refused(text.encode()).kubernetes_text == kubernetes_text


def test_ordinary_reuse_of_anchors_is_no_bomb() -> None:
    text = "base: &b {k: 1}\nall:\n" + "- {<<: *b, m: 1}\n" * 2_000
    document = read_yaml(text.encode())
    assert isinstance(document.value, dict)
    assert document.value["all"] == [{"k": 1, "m": 1}] * 2_000


def test_the_deepest_document_can_be_walked() -> None:
    data = b"[" * MAX_DOCUMENT_DEPTH + b"]" * MAX_DOCUMENT_DEPTH
    assert len(read_yaml(data).positions) == len(read_json(data).positions) == MAX_DOCUMENT_DEPTH
    assert json.dumps(read_yaml(data).value) == data.decode()
