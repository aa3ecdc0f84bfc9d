"""Fields of documents that a server or another program wrote: of the right type, or as good as absent."""

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["number_of", "text_of", "texts_of"]

_LONGEST_TEXT = 1 << 16
# Beyond any instant in seconds that a client could write down.
_LARGEST_NUMBER = 1e12


def text_of(document: "Mapping[str, object]", name: str) -> str:
    """A text, or an empty one."""
    value = document.get(name)
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT else ""


def texts_of(document: "Mapping[str, object]", name: str) -> tuple[str, ...]:
    """The texts in a list."""
    value = document.get(name)
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def number_of(document: "Mapping[str, object]", name: str) -> float | None:
    """A number that is not negative, or None; some servers write it as text."""
    value = document.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:13])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Not a comparison: it is to fail for what is not a number, too.
    return float(value) if 0 <= value < _LARGEST_NUMBER else None
