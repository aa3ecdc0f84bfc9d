"""Write the corrections of lint to the files, and show them as a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry._core.files import DistrustedError, open_path
from keyferry.cli.lint.arguments import STDIN_PATH
from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes.diff import masked_diff
from keyferry.lint.fixes.rounds import FixedFile


def write_file(fixed: FixedFile) -> None:
    """Replace a file by its corrected content, atomically, with the same mode and owner.

    Raises EnvironmentProblem if the file is not a regular file with one name, cannot be written, or has changed since
    it was read.
    """
    try:
        folder, left = open_path(fixed.path)
        with folder.descend(*left[:-1]) as opened:
            is_done = bool(left) and opened.exchange(left[-1], fixed.before, fixed.after)
    except DistrustedError as error:
        raise EnvironmentProblem(f"{fixed.path} is not corrected: {error.strerror}") from None
    except OSError as error:
        raise EnvironmentProblem(f"{fixed.path} cannot be written: {error.strerror}") from None
    if not is_done:
        raise EnvironmentProblem(f"{fixed.path} is not corrected: it has changed since it was read")


def diff_lines(files: Sequence[FixedFile]) -> Iterator[str]:
    """Yield the corrections as unified diffs, without values that may be secrets."""
    for fixed in files:
        name = "-" if fixed.path == STDIN_PATH else fixed.path
        yield from masked_diff(fixed, name, ", --fix makes the corrections")
