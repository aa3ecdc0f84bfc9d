"""The lines with which a plugin tells ``keyferry plugin try`` of its own steps, on standard error.

A line is ``keyferry-link: `` and a JSON object: ``name``, ``state``, ``text``, and optional ``facts`` and ``cure``.
"""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError

__all__ = ["PREFIX", "STATES", "VARIABLE", "LinkLine", "decode_link", "encode_link"]

# Set to 1 for a plugin whose links are wanted.
VARIABLE = "KEYFERRY_LINKS"
PREFIX = "keyferry-link: "
STATES = ("ok", "broken", "unknown")
_MAX_LINE = 8192
_MAX_NAME, _MAX_TEXT, _MAX_FACT = 32, 500, 300
_MAX_FACTS, _MAX_ITEMS = 20, 20
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_FACT_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-")


class LinkLine(Value):
    """One step of a plugin: its name, one of STATES, what happened, details, and what to do if it is broken."""

    name: str
    state: str
    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    cure: str = ""


def encode_link(link: LinkLine) -> str:
    """Return the line for *link*, without a line end."""
    facts = dict(link.facts)
    fields = {"name": link.name, "state": link.state, "text": link.text, "facts": facts, "cure": link.cure}
    return PREFIX + dumps({name: value for name, value in fields.items() if value})


def decode_link(line: bytes) -> LinkLine | None:
    """Return the step in a line; None for any other line, and for one that breaks a rule or a limit."""
    start = PREFIX.encode()
    if not line.startswith(start) or len(line) > _MAX_LINE:
        return None
    try:
        document = loads(line[len(start) :])
    except DocumentError:
        return None
    if not isinstance(document, dict):
        return None
    name, state, text = (document.get(each) for each in ("name", "state", "text"))
    facts, cure = document.get("facts", {}), document.get("cure", "")
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME or not _NAME.issuperset(name):
        return None
    are_texts = text and _is_text(text, _MAX_TEXT) and _is_text(cure, _MAX_TEXT)
    if state not in STATES or not are_texts or not _are_facts(facts):
        return None
    return LinkLine(name=name, state=str(state), text=str(text), facts=facts, cure=cure)


def _are_facts(facts: object) -> bool:
    return (
        isinstance(facts, dict)
        and len(facts) <= _MAX_FACTS
        and all(0 < len(name) <= _MAX_NAME and _FACT_NAME.issuperset(name) for name in facts)
        and all(_is_fact(value) for value in facts.values())
    )


def _is_fact(value: object) -> bool:
    if isinstance(value, list):
        return len(value) <= _MAX_ITEMS and all(_is_text(each, _MAX_FACT) for each in value)
    return isinstance(value, int | float) or _is_text(value, _MAX_FACT)


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most
