"""Write the corrections of lint to the files, and show them as a unified diff."""

import os
import stat
from collections.abc import Iterator, Sequence

from keyferry._core.files import open_folder
from keyferry._core.secrets import printable
from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes.rounds import FixedFile
from keyferry.lint.source import visible_lines
from keyferry.show.writer import style

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


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
            folder.unlink(draft)
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
    """Yield the corrections as a unified diff, without values that may be secrets."""
    for fixed in files:
        yield style(printable(f"--- a/{fixed.path}"), _COLOURS["-"])
        yield style(printable(f"+++ b/{fixed.path}"), _COLOURS["+"])
        for line in _hunks(fixed):
            shown = printable(line, "\t")
            yield style(shown, _COLOURS[line[0]]) if line[0] in _COLOURS else shown


def _hunks(fixed: FixedFile) -> Iterator[str]:
    """Yield the hunks; the lines are compared as they are, and shown with secrets masked."""
    from difflib import SequenceMatcher

    old, new = visible_lines(fixed.before), visible_lines(fixed.after)
    matcher = SequenceMatcher(None, fixed.before.splitlines(), fixed.after.splitlines(), autojunk=False)
    for group in matcher.get_grouped_opcodes():
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield (f"@@ -{old_start + 1},{old_end - old_start} +{new_start + 1},{new_end - new_start} @@")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[old_from:old_to])
                continue
            yield from (f"-{line}" for line in old[old_from:old_to])
            yield from (f"+{line}" for line in new[new_from:new_to])
