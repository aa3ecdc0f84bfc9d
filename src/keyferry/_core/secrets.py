"""Keep secrets out of what people read.

Regular expressions are loaded when there is something to hide: a plugin that does its job never needs them.
"""

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "********"

_SHORTEST_KNOWN = 4
_TAIL_LINES, _TAIL_WIDTH = 5, 400
# What moves a cursor, breaks a line, turns text around, or is half a character.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def redact(text: str, known: tuple[str, ...] = ()) -> str:
    """Mask what is *known* to be secret, and whatever looks like a secret."""
    from keyferry._core.masking import mask_shapes

    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _SHORTEST_KNOWN:
            text = text.replace(secret, MASK)
    return mask_shapes(text, MASK)


def secret_values(settings: "Iterable[tuple[str, str]]") -> tuple[str, ...]:
    """The values of settings, by name, that may be secrets: all but words, numbers, paths and the like.

    A region or a log level that is masked wherever it occurs takes the diagnosis with it.
    """
    from keyferry._core.masking import is_ordinary_setting

    return tuple(value for name, value in settings if not is_ordinary_setting(name, value))


def printable(text: str, keep: str = "") -> str:
    """*text* on one line, without characters that would move a cursor or reorder text on a terminal.

    Each is replaced by a mark, but for those to *keep*, such as line breaks that are our own.
    """
    # Compiling the pattern would cost a start more than all else that it writes.
    if text.isprintable() or text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    import re

    return re.sub(_CONTROL, lambda found: found[0] if found[0] in keep else "\ufffd", text)


def escape_controls(text: str) -> str:
    """JSON with the same characters escaped, line breaks between its parts left as they are."""
    if printable(text, "\n") == text:
        return text
    import re

    return re.sub(_CONTROL, lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def stderr_tail(stderr: bytes, known: tuple[str, ...] = ()) -> str:
    """The last lines of a plugin's standard error, redacted, bounded and safe to print."""
    # Redacted as a whole first: a cut through a secret would leave a piece that looks like none.
    text = redact(stderr.decode("utf-8", "replace"), known)
    kept = [printable(line.strip()) for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    return " | ".join(line if len(line) <= _TAIL_WIDTH else line[:_TAIL_WIDTH] + "..." for line in kept)
