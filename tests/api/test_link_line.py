"""A line of a plugin's step is read as it was written, and anything else is no such line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.api.link_line import PREFIX, STATES, LinkLine, decode_link, encode_link


@pytest.mark.parametrize("state", STATES)
def test_what_is_written_is_read(state: str) -> None:
    link = LinkLine(
        name="call-1",
        state=state,
        text="status 200",
        facts={"status": 200, "taken": ["token"]},
        cure="nothing",
    )
    assert decode_link(encode_link(link).encode()) == link


def test_facts_and_cure_are_optional_and_other_members_are_ignored() -> None:
    line = PREFIX + json.dumps({"name": "a", "state": "ok", "text": "b", "later": {"x": 1}})
    assert decode_link(line.encode()) == LinkLine(name="a", state="ok", text="b")


STEP = '{"name": "a", "state": "ok", "text": "b"}'


@pytest.mark.parametrize("line", [STEP, f" {PREFIX}{STEP}", f"{PREFIX}[{STEP}]", f"{PREFIX}{STEP} {STEP}"])
def test_what_only_resembles_a_step_is_none(line: str) -> None:
    assert decode_link((PREFIX + STEP).encode()) is not None
    assert decode_link(line.encode()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "A b"},
        {"name": "a" * 33},
        {"state": "fine"},
        {"text": ""},
        {"text": "b" * 501},
        {"cure": 1},
        {"cure": "c" * 501},
        {"facts": []},
        {"facts": {"": 1}},
        {"facts": {"a/b": 1}},
        {"facts": {"a": {}}},
        {"facts": {"a": "b" * 301}},
        {"facts": {"a": ["b"] * 21}},
        {"facts": {f"fact {number}": 1 for number in range(21)}},
        {"later": "d" * 8192},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_step_that_breaks_a_rule_or_a_limit_is_none(change: dict[str, object]) -> None:
    assert decode_link((PREFIX + json.dumps(json.loads(STEP) | change)).encode()) is None


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
