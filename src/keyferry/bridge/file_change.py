"""A change of somebody's config: planned, shown as a diff, and made only if the file is still what it was."""

import os

from keyferry._core.files import open_folder
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError, EnvironmentProblem

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileChange", "apply_change", "check_edit", "make_diff", "make_part_diff", "read_text"]

_MOST_BYTES = 1 << 20


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


def check_edit(path: str, after: str, read: "Callable[[str], object]", wanted: object) -> str:
    """Return the new text if it means what it should; raise EnvironmentProblem otherwise."""
    try:
        is_right = read(after) == wanted
    except (ValueError, DocumentError):
        is_right = False
    if not is_right:
        raise EnvironmentProblem(f"{path!r} is written in a way that cannot be edited; change it by hand")
    return after


def make_diff(path: str, before: str, after: str) -> str:
    """Return a unified diff."""
    from difflib import unified_diff

    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = unified_diff(old, new, path, path)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def make_part_diff(path: str, part: str, before: str, after: str) -> str:
    """Return the change of one part of a file as a diff of all its lines.

    What is beside it, or on the same line, may have secrets.
    """
    from difflib import unified_diff

    old, new = (text.splitlines() for text in (before, after))
    _, _, _, *lines = unified_diff(old, new, n=max(len(old), len(new)), lineterm="")
    return "".join(f"{line}\n" for line in (f"--- {path}", f"+++ {path}", f"@@ {part} @@", *lines))


def read_text(path: str) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is none. Raise EnvironmentProblem."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if len(data) <= _MOST_BYTES:
            return data.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise EnvironmentProblem(f"{path!r} cannot be read: {(reason or 'unknown').lower()}") from None
    raise EnvironmentProblem(f"{path!r} has more than {_MOST_BYTES} bytes")


def apply_change(change: FileChange) -> None:
    """Write or remove the file, unless it is not what it was when the change was planned."""
    if change.before == change.after:
        return
    # A link to a config elsewhere stays a link.
    folder, name = os.path.split(os.path.realpath(change.path))
    try:
        with open_folder(folder, make=change.folder_mode) as opened:
            if read_text(change.path) != change.before:
                raise EnvironmentProblem(f"{change.path!r} has been changed meanwhile; try again")
            if change.after is None:
                opened.unlink(name)
                return
            mode = opened.status_of(name).st_mode & 0o777 if opened.has(name) else change.mode
            opened.replace(name, change.after.encode(), mode=mode, is_exact=True)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise EnvironmentProblem(f"{change.path!r} cannot be written: {reason}") from None
