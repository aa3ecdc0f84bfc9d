"""A change of somebody's config: planned, shown as a diff, and made only if the file is still what it was."""

from __future__ import annotations

import os
import stat
from difflib import unified_diff

from keyferry._core.files import Folder, open_path, reason_of
from keyferry._core.values import Value, field
from keyferry.errors import EnvironmentProblem

_MAX_BYTES = 1 << 20


class FileChange(Value):
    """A file before and after, None where there is no file, and the change as a unified diff.

    The diff has nothing that may be secret. *notes* say what is not changed, and why. The modes are those of a file
    and of a folder that are new.
    """

    path: str
    before: str | None = field(repr=False)
    after: str | None = field(repr=False)
    diff: str = ""
    notes: tuple[str, ...] = ()
    mode: int = 0o600
    folder_mode: int = 0o700


def make_diff(path: str, before: str, after: str) -> str:
    """Return a unified diff."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = unified_diff(old, new, path, path)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def make_part_diff(path: str, part: str, before: str, after: str) -> str:
    """Return the change of one part of a file as a diff of all its lines.

    What is beside it, or on the same line, may have secrets.
    """
    old, new = (text.splitlines() for text in (before, after))
    _, _, _, *lines = unified_diff(old, new, n=max(len(old), len(new)), lineterm="")
    return "".join(f"{line}\n" for line in (f"--- {path}", f"+++ {path}", f"@@ {part} @@", *lines))


def read_text(path: str) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is none. Raise EnvironmentProblem."""
    try:
        folder, left = open_path(path)
        if len(left) > 1:
            folder.close()
            return None
        with folder:
            fd = folder.open(left[0] if left else os.curdir)
        with open(fd, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise EnvironmentProblem(f"{path!r} is not a regular file")
            data = stream.read(_MAX_BYTES + 1)
        if len(data) <= _MAX_BYTES:
            return data.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise EnvironmentProblem(f"{path!r} cannot be read: not UTF-8 text") from None
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be read: {reason_of(error, path)}") from None
    raise EnvironmentProblem(f"{path!r} has more than {_MAX_BYTES} bytes")


def apply_change(change: FileChange) -> None:
    """Write or remove the file, unless it is not what it was when the change was planned; its owner keeps it."""
    if change.before == change.after:
        return
    try:
        folder, left = open_path(change.path)
        with _below(folder, left[:-1], change) as opened:
            is_done = bool(left) and _apply(opened, left[-1], change)
    except OSError as error:
        raise EnvironmentProblem(
            f"{change.path!r} cannot be written: {reason_of(error, change.path)}"
        ) from None
    if not is_done:
        raise EnvironmentProblem(f"{change.path!r} has been changed meanwhile; try again")


def _below(folder: Folder, missing: tuple[str, ...], change: FileChange) -> Folder:
    """Return the folder of the file, which is made if it is missing, but not for another user."""
    user = folder.status().st_uid
    if missing and user not in (0, os.geteuid()):
        folder.close()
        raise EnvironmentProblem(
            f"{change.path!r} cannot be written: its folder is missing, and the one above it belongs to user {user}; "
            f"run the command as that user: sudo -u '#{user}'"
        )
    return folder.descend(*missing, make=change.folder_mode)


def _apply(folder: Folder, name: str, change: FileChange) -> bool:
    """Return whether the file was still what it was, and is changed."""
    if change.before is None:
        if folder.has(name):
            return False
        status = folder.status()
        # A new file in the folder of another user is theirs; elsewhere the system decides.
        is_ours = status.st_uid == os.geteuid() or os.geteuid() != 0
        owner = None if is_ours else (status.st_uid, status.st_gid)
        data = (change.after or "").encode()
        folder.replace(name, data, mode=change.mode, is_exact=True, owner=owner)
        return True
    after = None if change.after is None else change.after.encode()
    return folder.exchange(name, change.before.encode(), after)
