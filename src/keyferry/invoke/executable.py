"""Find a program as Go's ``os/exec`` does, with the same error texts; and the variables that change what it loads."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.values import Value, replace

_NOT_FOUND = "executable file not found in $PATH"
_RELATIVE = "cannot run executable found relative to current directory"
# Variables by which whoever sets them decides which code a program loads. Windows ignores their case.
_LOADERS = re.compile(
    r"PATH|(LD|DYLD|GLIBC)_\w*|GCONV_PATH|LOCPATH|BASH_ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|IFS|PYTHON\w*"
    r"|CLOUDSDK_PYTHON\w*|NODE_(OPTIONS|PATH)|PERL5?(LIB|OPT|DB)|RUBY(LIB|OPT)|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS"
    r"|LUA_(C?PATH|INIT)\w*|PHPRC|PHP_INI_SCAN_DIR|DOTNET_STARTUP_HOOKS|COR(ECLR)?_\w*|GIT_\w*"
    r"|OPENSSL_(CONF|ENGINES|MODULES)",
    re.IGNORECASE | re.DOTALL,
)


class LookPathResult(Value):
    """The result of a search: a path, a *problem* with Go's text, or both for a path that Go refuses to run.

    *reason* is the last part of the problem, without the name and path of the program.
    """

    path: str = ""
    problem: str = ""
    reason: str = ""


LookPath = Callable[[str], LookPathResult]


def clean_path(path: str) -> str:
    """Return the shortest equivalent path, as ``filepath.Clean`` does, without accessing the file system."""
    cleaned = os.path.normpath(path)
    # normpath keeps two leading slashes, which have a special meaning in POSIX but not in Go.
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def base_name(path: str) -> str:
    """Return the last part of a cleaned path, as ``filepath.Base`` does."""
    return os.path.basename(path) or path


def look_path(name: str) -> LookPathResult:
    """Find *name* in the PATH of this process, as ``exec.LookPath`` does.

    A program that is found through a relative entry of PATH has a problem set, since anyone who can
    write to the working directory could replace it.
    """
    if name in ("", ".", ".."):
        return _refused(name, _NOT_FOUND)
    if "/" in name:
        problem = _why_not_executable(name)
        return _refused(name, *problem) if problem else LookPathResult(path=name)
    search = os.environ.get("PATH", "")
    for folder in search.split(os.pathsep) if search else ():
        path = clean_path(os.path.join(folder or ".", name))
        if not _why_not_executable(path):
            found = LookPathResult() if os.path.isabs(path) else _refused(name, _RELATIVE)
            return replace(found, path=path)
    return _refused(name, _NOT_FOUND)


def look_command(command: str, look: LookPath = look_path) -> LookPathResult:
    """Resolve a cleaned command as ``exec.Command`` does: only a name without a slash is searched for."""
    return look(command) if base_name(command) == command else LookPathResult(path=command)


def is_loader_variable(name: str) -> bool:
    """Return whether a variable changes which code a program loads or runs, such as PATH and LD_PRELOAD."""
    return _LOADERS.fullmatch(name) is not None


def _refused(name: str, reason: str, stage: str = "") -> LookPathResult:
    return LookPathResult(problem=f"exec: {quote(name)}: {stage}{reason}", reason=reason)


def _why_not_executable(path: str) -> tuple[str, ...]:
    """Return Go's error text and the prefix for its stage; empty if the file is executable."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return go_strerror(error), f"stat {path}: "
    if stat.S_ISDIR(mode):
        return ("is a directory",)
    effective = os.access in os.supports_effective_ids
    return () if os.access(path, os.X_OK, effective_ids=effective) else ("permission denied",)
