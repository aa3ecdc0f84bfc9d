"""What is in a folder, to be compared with what was."""

from pathlib import Path


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder and below, with its mode."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in [folder, *sorted(folder.rglob("*"))]
    }
