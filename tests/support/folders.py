"""The content of a folder, for comparisons."""

from __future__ import annotations

from pathlib import Path


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all files and folders below a folder, with their modes and the times of their last change."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }
