"""JSON as Kubernetes reads and writes it; errors never quote what was read."""

from keyferry._json import dumps, loads
from keyferry.errors import DocumentError

__all__ = ["DocumentError", "dumps", "loads"]
