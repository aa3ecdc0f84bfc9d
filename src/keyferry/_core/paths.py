"""The path of a value inside a document."""

from __future__ import annotations

Path = tuple[str | int, ...]


def format_path(path: Path) -> str:
    """Return *path* as text: ``("providers", 0, "name")`` is ``providers[0].name``."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")
