"""A line of a plugin's step is read as it was written, and anything else is no such line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.api.link_line import PREFIX, STATES, LinkLine, decode_link, encode_link


@pytest.mark.parametrize("state", STATES)
def test_what_is_written_is_read(state: str) -> None:
    link = LinkLine("call-1", state, "status 200", {"status": 200, "taken": ["token"]}, "nothing")
    assert decode_link(encode_link(link).encode()) == link


def test_facts_and_cure_are_optional_and_other_members_are_ignored() -> None:
    line = PREFIX + json.dumps({"name": "a", "state": "ok", "text": "b", "later": {"x": 1}})
    assert decode_link(line.encode()) == LinkLine("a", "ok", "b")


@given(st.binary(max_size=200), st.booleans())
def test_any_other_line_is_none(data: bytes, has_prefix: bool) -> None:
    found = decode_link(PREFIX.encode() + data if has_prefix else data)
    assert found is None or isinstance(found, LinkLine)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["name", "state", "text", "facts", "cure"]),
)
def test_a_member_of_any_type_raises_nothing(value: object, member: str) -> None:
    fields = {"name": "a", "state": "ok", "text": "b", member: value}
    found = decode_link((PREFIX + json.dumps(fields)).encode())
    if found is not None:
        assert encode_link(found).startswith(PREFIX)
