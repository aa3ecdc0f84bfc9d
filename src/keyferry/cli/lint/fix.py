"""Write the corrections of lint to the files, and show them as a unified diff."""

import os
import stat
from collections.abc import Iterator, Sequence

from keyferry._core.files import open_folder
from keyferry.cli.lint.arguments import STDIN_PATH
from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes.diff import masked_diff
from keyferry.lint.fixes.rounds import FixedFile


def write_file(fixed: FixedFile) -> None:
    """Replace a file by its corrected content, atomically, with the same mode and owner.

    Raises EnvironmentProblem if the file is not a regular file with one name, cannot be written, or has changed since
    it was read.
    """
    path = os.path.realpath(fixed.path)
    try:
        _replace(path, fixed)
    except OSError as error:
        raise EnvironmentProblem(f"{fixed.path} cannot be written: {error.strerror}") from None


def _replace(path: str, fixed: FixedFile) -> None:
    folder_path, name = os.path.split(path)
    with open_folder(folder_path) as folder:
        before = folder.status_of(name)
        if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1:
            raise EnvironmentProblem(f"{fixed.path} is not corrected: it is not a regular file with one name")
        draft = f".{name}.{os.getpid()}.{os.urandom(6).hex()}"
        fd = folder.create(draft, 0o600)
        try:
            try:
                _copy_owner(fd, before)
                folder.write(fd, fixed.after)
                folder.sync_file(fd)
            finally:
                os.close(fd)
            if not _is_unchanged(path, before, fixed.before):
                raise EnvironmentProblem(f"{fixed.path} is not corrected: it has changed since it was read")
            folder.rename(draft, name)
        except BaseException:
            folder.discard(draft)
            raise
        folder.sync()


def _copy_owner(fd: int, before: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        now = os.fstat(fd)
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(fd, before.st_uid, before.st_gid)
        os.fchmod(fd, stat.S_IMODE(before.st_mode))


def _is_unchanged(path: str, before: os.stat_result, data: bytes) -> bool:
    with open(path, "rb") as stream:
        return os.path.samestat(os.fstat(stream.fileno()), before) and stream.read() == data


def diff_lines(files: Sequence[FixedFile]) -> Iterator[str]:
    """Yield the corrections as unified diffs, without values that may be secrets."""
    for fixed in files:
        name = "-" if fixed.path == STDIN_PATH else fixed.path
        yield from masked_diff(fixed, name, ", --fix makes the corrections")
