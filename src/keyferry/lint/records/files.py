"""Problems of record files that do not depend on their content: links, owners, modes, names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from keyferry.errors import Problem
from keyferry.lint.files import OTHERS_WRITE, who_writes
from keyferry.pulls.records.disk import MOST_BYTES
from keyferry.pulls.records.format import PREFIX

_OTHERS_READ = stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH


def check_folder(path: str) -> Iterator[Problem]:
    """Yield the problems of a folder's owner and permissions."""
    try:
        found = os.stat(path)
    except OSError as error:
        yield Problem("", f"the folder cannot be read: {error.strerror}", code="KF404", file=path)
        return
    if os.path.islink(path):
        yield _link(path, "folder")
    yield from _check_mode(path, found, "folder", "700")


def check_entry(entry: os.DirEntry[str]) -> Iterator[Problem]:
    """Yield the problems of one entry of a folder of records."""
    if entry.is_dir(follow_symlinks=False) or not entry.name.startswith(PREFIX):
        message = "it is ignored: only files whose names begin with 'sha256-' are read; remove it"
        yield Problem("", message, code="KF421", file=entry.path)
        return
    if entry.name.endswith(".tmp"):
        message = "it is ignored: a process that ended while writing left it behind; remove it"
        yield Problem("", message, code="KF420", file=entry.path)
        return
    if entry.is_symlink():
        yield _link(entry.path, "file")
        return
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        yield Problem("", "it is not a regular file; remove it", code="KF413", file=entry.path)
        return
    yield from _check_mode(entry.path, found, "record", "600")
    if found.st_nlink > 1:
        message = f"it has {found.st_nlink} names, expected 1; remove it"
        yield Problem("", message, code="KF412", file=entry.path)
    if found.st_size > MOST_BYTES:
        message = f"it has {found.st_size} bytes, expected at most {MOST_BYTES}; remove it"
        yield Problem("", message, code="KF417", file=entry.path)


def _link(path: str, expected: str) -> Problem:
    message = f"it is a symbolic link to {os.readlink(path)!r}, expected a {expected}; remove it"
    return Problem("", message, code="KF411", file=path)


def _check_mode(path: str, found: os.stat_result, what: str, mode: str) -> Iterator[Problem]:
    shown = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & OTHERS_WRITE:
        message = f"{who_writes(found.st_mode)} can write the {what} ({shown}); run chmod {mode} {path}"
        yield Problem("", message, code="KF414", file=path)
    elif found.st_mode & _OTHERS_READ:
        message = f"other users can read the {what} ({shown}); run chmod {mode} {path}"
        yield Problem("", message, code="KF415", file=path)
    if found.st_uid not in (0, os.geteuid()):
        message = f"the {what} belongs to user {found.st_uid}, expected root or user {os.geteuid()}"
        yield Problem("", message, code="KF416", file=path)
