"""JSON as Kubernetes reads and writes it; errors do not quote the document."""

from __future__ import annotations

from keyferry._core.json import dumps, loads
from keyferry.errors import DocumentError

__all__ = ["DocumentError", "dumps", "loads", "read_object"]


def read_object(data: bytes | str) -> dict[str, object] | None:
    """Return the JSON object in *data*; None if it is anything else.

    Use it for data that may contain a secret: no exception keeps the data in its frames.
    """
    try:
        document = loads(data)
    except DocumentError:
        return None
    return document if isinstance(document, dict) else None
