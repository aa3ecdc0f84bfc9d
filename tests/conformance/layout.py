"""Put a case's files, folders and programs where the case wants them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = "#!/bin/sh\n"
_EXECUTABLE = 0o755


def content_of(value: object) -> bytes:
    """The bytes that a case gives as text or, where they are none, as ``{"base64": ...}``."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def mode_of(value: object, default: int = _EXECUTABLE) -> int:
    """A file mode: a number, or its octal digits as text."""
    if value is None:
        return default
    return int(value, 8) if isinstance(value, str) else int(value)  # type: ignore[call-overload] # a number


def lay_out(
    folder: Path,
    files: object,
    names: Mapping[bytes, bytes] | None = None,
    modes: tuple[int, int] = (0o755, 0o644),
) -> None:
    """Write *files*, content by name: a name that ends in ``/`` is a folder, others may lie below folders.

    *names* are replaced in what is written; *modes* are those of folders and files.
    """
    assert isinstance(files, dict | None)
    for name, value in (files or {}).items():
        path = folder / name
        is_folder = name.endswith("/")
        _make_folder(path if is_folder else path.parent, folder, modes[0])
        if not is_folder:
            content = content_of(value)
            for local, shown in (names or {}).items():
                content = content.replace(local, shown)
            path.write_bytes(content)
            path.chmod(modes[1])


def lay_out_programs(folder: Path, modes: object, script: str = _PROGRAM) -> None:
    """Write programs, all the same *script*, with their modes by name; a name that ends in ``/`` is a folder."""
    assert isinstance(modes, dict | None)
    for name, mode in (modes or {}).items():
        if name.endswith("/"):
            _make_folder(folder / name, folder, mode_of(mode))
        else:
            write_program(folder / name, script, mode)


def write_program(path: Path, script: object, mode: object = None) -> Path:
    """Write one program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content_of(script))
    path.chmod(mode_of(mode))
    return path


def files_below(folder: Path) -> dict[str, str]:
    """The content of every file at any depth, by its path from *folder*."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8", "replace") for path in found
    }


def _make_folder(path: Path, root: Path, mode: int) -> None:
    missing = [each for each in (path, *path.parents) if each != root and root in each.parents]
    for each in reversed(missing):
        if not each.exists():
            each.mkdir()
            each.chmod(mode)
