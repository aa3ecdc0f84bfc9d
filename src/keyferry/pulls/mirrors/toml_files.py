"""TOML files that others wrote: read with limits, with problems that can be shown; and the paths in them."""

from __future__ import annotations

import os
import stat

__all__ = ["Table", "TomlProblem", "check_count", "load_toml", "open_now", "subtable", "texts", "under"]

Table = dict[str, object]
_MOST_BYTES = 1 << 20
# The parser's time for a key grows with the square of its parts.
_MOST_DOTS = 1000
# Each host is asked in turn, with a TLS context of its own.
_MOST_HOSTS = 100


class TomlProblem(Exception):
    """Why a file cannot be used, as part of a sentence about it."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem


def load_toml(path: str) -> Table:
    """Return the table in a file; raise FileNotFoundError or TomlProblem, with the line where that is known."""
    import tomllib

    try:
        with open(path, "rb", opener=open_now) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TomlProblem(path, "it is not a regular file")
            data = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise TomlProblem(path, f"it cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise TomlProblem(path, "it is larger than 1 MiB")
    if any(line.count(b".") > _MOST_DOTS for line in data.splitlines()):
        raise TomlProblem(path, f"a line has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        problem = "it is not TOML: it is not UTF-8"
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # The parser's message has a line and names keys, but quotes no value.
        problem = f"it is not TOML: {error}"
    raise TomlProblem(path, problem)


def check_count(path: str, hosts: int) -> None:
    """Raise TomlProblem if a file has too many hosts for one image."""
    if hosts > _MOST_HOSTS:
        raise TomlProblem(path, f"it has more than {_MOST_HOSTS} hosts, which is too many here")


def open_now(path: str, flags: int) -> int:
    """Open a file without blocking, in case the path is a named pipe: an opener for ``open``."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def subtable(table: object, *names: str) -> Table:
    """Return the table at a path of names; an empty one if it is absent or not a table."""
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def texts(value: object) -> list[str]:
    """Return the strings of a list; none if it is not a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def under(root: str, path: str) -> str:
    """Return a path of the host below *root*; a path that is already below it is returned unchanged."""
    is_there = root == "/" or path.startswith(os.path.join(root, ""))
    return path if is_there else os.path.join(root, path.lstrip("/"))
