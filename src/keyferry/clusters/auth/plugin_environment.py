"""The environment of a plugin: this process's, the configured variables, and KUBERNETES_EXEC_INFO."""

import os
import sys
from collections.abc import Iterable

from keyferry.errors import EnvironmentProblem

__all__ = ["EXEC_INFO", "check_size", "merge_entries", "plugin_entries", "process_entries", "to_mapping"]

EXEC_INFO = "KUBERNETES_EXEC_INFO"
# Linux takes 32 pages for one argument or variable, its name and the NUL at its end included.
_PAGES = 32
_PAGE_BYTES = 4096


def process_entries() -> list[bytes]:
    """The environment of this process, as ``NAME=value``."""
    return [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]


def plugin_entries(environ: Iterable[bytes], env: Iterable[tuple[str, str]], info: str) -> list[bytes]:
    """Everything a plugin's environment is made of, in order, repeated names included.

    What is told about the cluster comes last, so neither the environment nor a config can replace it.
    """
    configured = [_encode(f"{name}={value}") for name, value in env]
    return [*environ, *configured, _encode(f"{EXEC_INFO}={info}")]


class _Name(bytes):
    """A name that begins with ``=``, which systems take and ``subprocess`` refuses for what it finds in it."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return False


class _Bare(bytes):
    """An entry without ``=`` in the place of a name in a mapping; what a value is joined to it with is dropped.

    It equals nothing but itself, so that it replaces no variable of the same spelling.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __add__(self, other: object) -> "_Bare":
        return self


def merge_entries(entries: Iterable[bytes]) -> tuple[bytes, ...]:
    """*entries* with only the last of each name, where it stands; EnvironmentProblem if one holds a NUL.

    As in Go, an entry without ``=`` is left as it is, each of them if there are several, and an empty one is dropped.
    """
    kept: dict[bytes | int, bytes] = {}
    for number, entry in enumerate(entries):
        if b"\0" in entry:
            # The name is left out as well: whoever cannot spell a value may have put it there.
            message = "an environment variable for the plugin contains a NUL"
            raise EnvironmentProblem(message, "exec: environment variable contains NUL")
        name = _split(entry)[0] if b"=" in entry else number
        kept.pop(name, None)
        kept[name] = entry
    return tuple(filter(None, kept.values()))


def to_mapping(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """Merged entries as a mapping in the same order, for ``subprocess``.

    A variable without a name is dropped: no program can see it, and Python cannot pass it. An entry without
    ``=`` is passed as it stands.
    """
    pairs = (_split(entry) if b"=" in entry else (_Bare(entry), b"") for entry in entries)
    return {_Name(name) if name[:1] == b"=" else name: value for name, value in pairs if name}


def check_size(info: str) -> None:
    """Raise EnvironmentProblem if KUBERNETES_EXEC_INFO is more than the kernel takes for one variable."""
    size = len(_encode(f"{EXEC_INFO}={info}")) + 1
    limit = _limit()
    if limit is not None and size > limit:
        message = (
            f"{EXEC_INFO} would be {size} bytes and the system takes {limit} for one variable; "
            "shorten the cluster's certificate-authority-data or its config for the plugin, "
            "or set provideClusterInfo to false if the plugin can do without"
        )
        raise EnvironmentProblem(message, "argument list too long")


def _limit() -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return _PAGES * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _PAGES * _PAGE_BYTES


def _split(entry: bytes) -> tuple[bytes, bytes]:
    """The name and value of an entry that has a ``=``."""
    # A leading '=' belongs to the name if there is another: Windows has such variables.
    at = entry.find(b"=", 1)
    at = entry.find(b"=") if entry[:1] != b"=" or at < 0 else at
    return entry[:at], entry[at + 1 :]


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
