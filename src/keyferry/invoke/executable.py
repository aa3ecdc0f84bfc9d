"""Find a program as Go's ``os/exec`` does, to the wording of why it was not found."""

import os
import stat
from collections.abc import Callable

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.values import Value, replace

_NOT_FOUND = "executable file not found in $PATH"
_RELATIVE = "cannot run executable found relative to current directory"


class LookPathResult(Value):
    """What a search gave: a path, a problem in Go's words, or both for a path that Go refuses to run.

    *reason* is the end of the problem, without the names of what was looked for.
    """

    path: str = ""
    problem: str = ""
    reason: str = ""


LookPath = Callable[[str], LookPathResult]


def clean_path(path: str) -> str:
    """The shortest path that names the same by its text alone, as ``filepath.Clean`` gives it."""
    cleaned = os.path.normpath(path)
    # POSIX lets two slashes at the beginning mean something else than one, Go does not.
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def base_name(path: str) -> str:
    """The last part of a cleaned path, as ``filepath.Base`` gives it."""
    return os.path.basename(path) or path


def look_path(name: str) -> LookPathResult:
    """Find *name* as ``exec.LookPath`` does, in the PATH of this process.

    What a relative entry of PATH leads to comes with a problem: whoever can write to the
    working directory could otherwise have their program run.
    """
    if name in ("", ".", ".."):
        return _refused(name, _NOT_FOUND)
    if "/" in name:
        problem = _why_not_executable(name)
        return _refused(name, *problem) if problem else LookPathResult(name)
    search = os.environ.get("PATH", "")
    for folder in search.split(os.pathsep) if search else ():
        path = clean_path(os.path.join(folder or ".", name))
        if not _why_not_executable(path):
            return (
                LookPathResult(path) if os.path.isabs(path) else replace(_refused(name, _RELATIVE), path=path)
            )
    return _refused(name, _NOT_FOUND)


def look_command(command: str, look: LookPath = look_path) -> LookPathResult:
    """What ``exec.Command`` makes of a cleaned command: only a bare name is searched for."""
    return look(command) if base_name(command) == command else LookPathResult(command)


def _refused(name: str, reason: str, stage: str = "") -> LookPathResult:
    return LookPathResult("", f"exec: {quote(name)}: {stage}{reason}", reason)


def _why_not_executable(path: str) -> tuple[str, ...]:
    """Why, and at which stage that was found, in Go's words; nothing if it is executable."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return go_strerror(error), f"stat {path}: "
    if stat.S_ISDIR(mode):
        return ("is a directory",)
    effective = os.access in os.supports_effective_ids
    return () if os.access(path, os.X_OK, effective_ids=effective) else ("permission denied",)
