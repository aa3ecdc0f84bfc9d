"""Write the corrections of lint to the files, and show them as a unified diff."""

import os
import stat
from collections.abc import Iterator, Sequence

from keyferry._core.files import open_folder
from keyferry._core.secrets import MASK, printable
from keyferry._core.values import Value
from keyferry.cli.lint.arguments import STDIN_PATH
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


class _Row(Value):
    """A line of a hunk: its mark, its text as it is shown, its numbers in both files, and whether that is all of it."""

    mark: str
    text: str
    old: int
    new: int
    is_whole: bool


def diff_lines(files: Sequence[FixedFile]) -> Iterator[str]:
    """Yield the corrections as a unified diff, without values that may be secrets.

    It can be applied with ``patch``, unless a line that changes is masked; then the diff says so.
    """
    for fixed in files:
        hunks = list(_hunks(fixed))
        if not all(row.is_whole for hunk in hunks for row in hunk):
            yield f"# a line that changes is masked ({MASK}): this diff is for reading, --fix makes the corrections"
        name = "-" if fixed.path == STDIN_PATH else fixed.path
        yield style(printable(f"--- a/{name}"), _COLOURS["-"])
        yield style(printable(f"+++ b/{name}"), _COLOURS["+"])
        for line in (line for hunk in hunks for line in _hunk_lines(hunk, fixed)):
            shown = printable(line, "\t")
            yield style(shown, _COLOURS[line[0]]) if line[0] in _COLOURS else shown


def _hunk_lines(hunk: list[_Row], fixed: FixedFile) -> Iterator[str]:
    old, new = (sum(row.mark != mark for row in hunk) for mark in "+-")
    # A side without lines has the number of the line before.
    yield f"@@ -{hunk[0].old + bool(old)},{old} +{hunk[0].new + bool(new)},{new} @@"
    ends = len(fixed.before.splitlines()), len(fixed.after.splitlines())
    for row in hunk:
        yield row.mark + row.text
        data, is_last = (
            (fixed.after, row.new + 1 == ends[1])
            if row.mark == "+"
            else (fixed.before, row.old + 1 == ends[0])
        )
        if is_last and not data.endswith(b"\n"):
            yield "\\ No newline at end of file"


def _hunks(fixed: FixedFile) -> Iterator[list[_Row]]:
    """Yield the hunks; a line that is masked and does not change divides them, as ``patch`` would not find it."""
    for group in _groups(fixed):
        hunk: list[_Row] = []
        for row in group:
            if row.mark != " " or row.is_whole:
                hunk.append(row)
                continue
            if any(each.mark != " " for each in hunk):
                yield hunk
            hunk = []
        if any(each.mark != " " for each in hunk):
            yield hunk


def _groups(fixed: FixedFile) -> Iterator[list[_Row]]:
    """Yield the changes with the lines around them; lines are compared as they are, and shown with secrets masked."""
    from difflib import SequenceMatcher

    old, new = _Side(fixed.before), _Side(fixed.after)
    matcher = SequenceMatcher(None, fixed.before.splitlines(), fixed.after.splitlines(), autojunk=False)
    for group in matcher.get_grouped_opcodes():
        rows = []
        for tag, old_from, old_to, new_from, new_to in group:
            mark = " " if tag == "equal" else "-"
            rows += [old.row(mark, at, at, new_from + at - old_from) for at in range(old_from, old_to)]
            if tag != "equal":
                rows += [new.row("+", at, old_to, at) for at in range(new_from, new_to)]
        yield rows


class _Side:
    """One of the two contents: its lines as they are and as they are shown."""

    def __init__(self, data: bytes) -> None:
        self._written = data.decode("utf-8", "replace").split("\n")
        self._shown = visible_lines(data)

    def row(self, mark: str, at: int, old: int, new: int) -> _Row:
        """Return a line of this side, with the numbers that it has in both."""
        shown = self._shown[at]
        return _Row(mark, shown, old, new, shown == self._written[at] == printable(shown, "\t"))
