"""Fields of a foreign JSON document; a field of the wrong type counts as missing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["number_of", "text_of", "texts_of"]

_LONGEST_TEXT = 1 << 16
# Later than any instant that a client can represent.
_LARGEST_NUMBER = 1e12


def text_of(document: Mapping[str, object], name: str) -> str:
    """Return a string field, or an empty string."""
    value = document.get(name)
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT else ""


def texts_of(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return the strings in a list field."""
    value = document.get(name)
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def number_of(document: Mapping[str, object], name: str) -> float | None:
    """Return a number that is not negative, or None; some servers send it as a string."""
    value = document.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:13])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Written as a range check, so that it also fails for NaN.
    return float(value) if 0 <= value < _LARGEST_NUMBER else None
