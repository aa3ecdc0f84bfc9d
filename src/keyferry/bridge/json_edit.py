"""Members of JSON objects, added to and removed from a text; every other byte is kept.

The text is one object that has been read before. Removing what was added gives the text back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from keyferry._core.values import Value

__all__ = ["JsonMember", "add_member", "add_object", "find_member", "remove_member", "replace_value"]

_BLANKS = " \t\r\n"
# As docker writes, in an object over several lines that has no member to copy.
_INDENT = "\t"


class JsonMember(Value):
    """A member of an object: its name, and where it begins, where its value does, and where it ends."""

    name: str
    begin: int
    value: int
    end: int


class _Style(Value):
    """How an object's members are written: what is before each, and between name and value."""

    lead: str
    colon: str

    @property
    def between(self) -> str:
        """What is between two members."""
        return "," + (self.lead or self.colon[1:])

    @property
    def inner(self) -> _Style:
        """The style of an object that is the value of a member."""
        return _Style(lead=self.lead and self.lead + self.lead.rpartition("\n")[2], colon=self.colon)

    def member(self, name: str, value: str) -> str:
        """Return a member."""
        return json.dumps(name) + self.colon + value


def find_member(text: str, *names: str) -> JsonMember | None:
    """Return the member that these names lead to, from the object of the whole text; None if there is none."""
    at, found = 0, None
    for name in names:
        found = next((each for each in reversed(_members(text, at)) if each.name == name), None)
        if found is None:
            return None
        at = found.value
    return found


def add_member(text: str, name: str, value: str, owner: int = 0) -> str:
    """Return the text with a string as a new last member of the object at *owner*."""
    style = _style(text, owner)
    return _append(text, owner, style, style.member(name, json.dumps(value)))


def add_object(text: str, name: str, values: Mapping[str, str]) -> str:
    """Return the text with an object of strings as a new last member."""
    style = _style(text, 0)
    return _append(text, 0, style, style.member(name, _object(style, values)))


def replace_value(text: str, name: str, values: Mapping[str, str]) -> str:
    """Return the text with an object of strings as the value of a member that is there."""
    member = find_member(text, name)
    assert member is not None  # noqa: S101 - the caller has read it
    return text[: member.value] + _object(_style(text, 0), values) + text[member.end :]


def remove_member(text: str, *names: str) -> str:
    """Return the text without the member that these names lead to, and without the comma beside it."""
    owner = find_member(text, *names[:-1])
    start = _blanks(text, 0 if owner is None else owner.value)
    members = _members(text, start)
    at = next(at for at, each in enumerate(members) if each.name == names[-1])
    begin, end = members[at].begin, members[at].end
    if at:
        begin = members[at - 1].end
    elif len(members) > 1:
        end = members[1].begin
    else:
        begin = start + 1
    return text[:begin] + text[end:]


def _append(text: str, owner: int, style: _Style, member: str) -> str:
    members = _members(text, owner)
    if members:
        at = members[-1].end
        return text[:at] + style.between + member + text[at:]
    at = _blanks(text, owner) + 1
    return text[:at] + style.lead + member + text[at:]


def _object(style: _Style, values: Mapping[str, str]) -> str:
    inner = style.inner
    members = inner.between.join(inner.member(name, json.dumps(value)) for name, value in values.items())
    return f"{{{inner.lead}{members}{style.lead}}}"


def _style(text: str, owner: int) -> _Style:
    """Return how the members of the object at *owner* are written, by its last one."""
    members = _members(text, owner)
    if not members:
        start = _blanks(text, owner) + 1
        newline = _newline(text[start : _blanks(text, start)])
        return _Style(lead=newline and newline + _INDENT, colon=": ")
    last = members[-1]
    before = text[: last.begin]
    blank = before[len(before.rstrip(_BLANKS)) :]
    newline = _newline(blank)
    between = text[last.begin : last.value].rpartition(":")[2]
    return _Style(lead=newline and newline + blank.rpartition("\n")[2], colon=": " if between else ":")


def _newline(blank: str) -> str:
    """Return the line break in blanks; empty if there is none."""
    if "\n" not in blank:
        return ""
    return "\r\n" if "\r\n" in blank else "\n"


def _members(text: str, owner: int) -> list[JsonMember]:
    decode = json.JSONDecoder().raw_decode
    members: list[JsonMember] = []
    at = _blanks(text, _blanks(text, owner) + 1)
    while text[at] != "}":
        begin = _blanks(text, at + 1) if members else at
        name, end = decode(text, begin)
        value = _blanks(text, _blanks(text, end) + 1)
        end = decode(text, value)[1]
        members.append(JsonMember(name=name, begin=begin, value=value, end=end))
        at = _blanks(text, end)
    return members


def _blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
