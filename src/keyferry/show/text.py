"""Text for terminals: sections with titles, wrapped paragraphs, durations."""

from keyferry._core.secrets import printable
from keyferry.show.writer import Lines, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["duration_text", "sections", "wrap"]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_WIDTH = 108
_INDENT, _TITLE = 4, 10


def sections(parts: "Iterable[tuple[str, Iterable[str]]]") -> Lines:
    """Return each title with its lines, which must be printable; a title without lines is left out."""
    filled = ((title, [f"  {line}" for line in lines]) for title, lines in parts)
    blocks = ("\n".join((style(title.upper(), "bold"), *lines)) for title, lines in filled if lines)
    return Lines("\n\n".join(blocks))


def wrap(title: str, text: str) -> "Iterator[str]":
    """Yield the lines of a paragraph beside its title; words are not broken, so that they can be copied."""
    import textwrap

    width = _WIDTH - _INDENT - _TITLE
    lines = textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines or [""]):
        yield f"{'':{_INDENT}}{'' if number else title:<{_TITLE}}{line}"


def duration_text(seconds: float) -> str:
    """Return a duration in at most two units."""
    whole, parts = round(abs(seconds)), []
    for size, unit in _UNITS:
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "less than a second"
