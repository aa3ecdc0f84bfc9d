"""Make what others wrote fit for a message: no secrets, no control characters, not too long."""

from keyferry._core.secrets import printable, redact
from keyferry._core.user_info import hide_user_info

__all__ = ["hide_user_info", "shown"]

_MOST_CHARACTERS = 1 << 16


def shown(text: object, most: int = 300, known: tuple[str, ...] = ()) -> str:
    """*text* with what is *known* to be secret, and what looks like it, masked; on one line, cut at *most*."""
    whole = str(text)
    if len(whole) > _MOST_CHARACTERS:
        # The last word may be half a secret, which looks like none.
        whole = whole[:_MOST_CHARACTERS].rpartition(" ")[0]
    clean = printable(" ".join(redact(whole, known).split()))
    return clean if len(clean) <= most else clean[:most] + "..."
