"""Make what others wrote fit for a message: no secrets, no control characters, not too long."""

from keyferry._secret import printable, redact

__all__ = ["shown"]


def shown(text: object, most: int = 300, known: tuple[str, ...] = ()) -> str:
    """*text* with what is *known* to be secret, and what looks like it, masked; on one line, cut at *most*."""
    clean = " ".join(printable(redact(str(text), known)).split())
    return clean if len(clean) <= most else clean[:most] + "..."
