"""Prepare text of other programs for a message: without secrets and control characters, and of limited length."""

from __future__ import annotations

from keyferry._core.secrets import printable, redact
from keyferry._core.user_info import hide_user_info

__all__ = ["hide_user_info", "shown"]

_MOST_CHARACTERS = 1 << 16


def shown(text: object, most: int = 300, known: tuple[str, ...] = ()) -> str:
    """Return *text* on one line, cut at *most*, with *known* secrets and everything that looks like one masked."""
    whole = str(text)
    if len(whole) > _MOST_CHARACTERS:
        # The last word may be half of a secret, which is not recognised.
        whole = whole[:_MOST_CHARACTERS].rpartition(" ")[0]
    clean = printable(" ".join(redact(whole, known).split()))
    return clean if len(clean) <= most else clean[:most] + "..."
