"""JSON as Kubernetes reads and writes it; errors never quote what was read."""

from keyferry._core.json import dumps, loads
from keyferry.errors import DocumentError

__all__ = ["DocumentError", "dumps", "loads", "read_object"]


def read_object(data: bytes | str) -> dict[str, object] | None:
    """The one JSON object in *data*; None if it is anything else.

    For what may hold a secret: there is no exception whose frames could keep it.
    """
    try:
        document = loads(data)
    except DocumentError:
        return None
    return document if isinstance(document, dict) else None
