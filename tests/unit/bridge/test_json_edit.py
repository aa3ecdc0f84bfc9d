"""Members added to and removed from the text of a JSON object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.bridge.json_edit import (
    add_member,
    add_object,
    find_member,
    remove_member,
    replace_value,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text().filter(lambda name: name != "new"), VALUES)
INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : "), (",", ": ")])
HELPERS = st.dictionaries(st.text(), st.text(), min_size=1)


@given(
    DOCUMENTS, INDENTS, SEPARATORS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", " "]), HELPERS
)
def test_what_is_added_is_removed_without_a_trace(
    document: dict[str, object],
    indent: int | str | None,
    separators: tuple[str, str],
    newline: str,
    around: str,
    values: dict[str, str],
) -> None:
    text = json.dumps(document, indent=indent, separators=separators).replace("\n", newline)
    text = around + text + around
    added = add_object(text, "new", values)
    assert json.loads(added) == {**document, "new": values}
    assert list(json.loads(added)) == [*document, "new"]
    assert remove_member(added, "new") == text


@given(DOCUMENTS.filter(bool), INDENTS, st.data())
def test_any_member_is_removed(
    document: dict[str, object], indent: int | str | None, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    text = json.dumps(document, indent=indent)
    del document[name]
    assert json.loads(remove_member(text, name)) == document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {}}', '{"a": {"x": "1"}}'),
        ('{"a": {"b": "2"}}', '{"a": {"b": "2", "x": "1"}}'),
        ('{"a":{"b":"2"}}', '{"a":{"b":"2","x":"1"}}'),
        ('{\n "a": {\n  "b": "2"\n }\n}', '{\n "a": {\n  "b": "2",\n  "x": "1"\n }\n}'),
    ],
)
def test_a_member_of_an_inner_object_is_written_as_its_neighbour(text: str, expected: str) -> None:
    owner = find_member(text, "a")
    assert owner is not None
    assert add_member(text, "x", "1", owner.value) == expected
    assert remove_member(expected, "a", "x") == text


def test_a_member_is_found_where_it_is() -> None:
    text = ' { "a" : { "b" : [1, {"c": 2}] , "c" : "d" } , "e":0}'
    found = find_member(text, "a", "c")
    assert found is not None
    assert (text[found.begin : found.end], text[found.value : found.end]) == ('"c" : "d"', '"d"')
    assert find_member(text, "a", "e") is None
    assert find_member(text, "b") is None


def test_a_value_is_replaced_in_the_style_of_its_object() -> None:
    text = '{\n\t"a": null,\n\t"b": 1\n}'
    assert replace_value(text, "a", {"x": "1"}) == '{\n\t"a": {\n\t\t"x": "1"\n\t},\n\t"b": 1\n}'
