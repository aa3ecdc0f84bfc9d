"""Build a plugin's environment from this process's variables, the configured ones, and KUBERNETES_EXEC_INFO."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from keyferry.errors import EnvironmentProblem

EXEC_INFO = "KUBERNETES_EXEC_INFO"
# Linux limits one argument or variable to 32 pages, including its name and the terminating NUL.
_PAGES = 32
_PAGE_BYTES = 4096


def process_entries() -> list[bytes]:
    """Return the environment of this process as ``NAME=value`` entries."""
    return [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]


def plugin_entries(environ: Iterable[bytes], env: Iterable[tuple[str, str]], info: str) -> list[bytes]:
    """Return all entries of a plugin's environment in order, including repeated names.

    KUBERNETES_EXEC_INFO comes last, so neither the environment nor the kubeconfig can override it.
    """
    configured = [_encode(f"{name}={value}") for name, value in env]
    return [*environ, *configured, _encode(f"{EXEC_INFO}={info}")]


class _Name(bytes):
    """A name that starts with ``=``; operating systems accept it, but ``subprocess`` rejects names that contain it."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return False


class _Bare(bytes):
    """An entry without ``=``, used as a name in a mapping; the ``=`` and value that are appended to it are dropped.

    It is equal only to itself, so it does not replace a variable with the same name.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __add__(self, other: object) -> _Bare:
        return self


def merge_entries(entries: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return *entries* with only the last entry of each name, at its own position.

    As in Go, entries without ``=`` are all kept, and empty entries are dropped. Raises EnvironmentProblem if an
    entry contains a NUL.
    """
    kept: dict[bytes | int, bytes] = {}
    for number, entry in enumerate(entries):
        if b"\0" in entry:
            # The name is left out as well, since a misplaced value may be part of it.
            message = "an environment variable for the plugin contains a NUL"
            raise EnvironmentProblem(message, "exec: environment variable contains NUL")
        name = _split(entry)[0] if b"=" in entry else number
        kept.pop(name, None)
        kept[name] = entry
    return tuple(filter(None, kept.values()))


def to_mapping(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return merged entries as a mapping in the same order, for ``subprocess``.

    A variable with an empty name is dropped: programs cannot read it, and Python cannot pass it. An entry without
    ``=`` is passed unchanged.
    """
    pairs = (_split(entry) if b"=" in entry else (_Bare(entry), b"") for entry in entries)
    return {_Name(name) if name[:1] == b"=" else name: value for name, value in pairs if name}


def check_size(info: str) -> None:
    """Raise EnvironmentProblem if KUBERNETES_EXEC_INFO is longer than the kernel allows for one variable."""
    size = len(_encode(f"{EXEC_INFO}={info}")) + 1
    limit = _limit()
    if limit is not None and size > limit:
        message = (
            f"{EXEC_INFO} is {size} bytes long, the system allows {limit} for one variable; "
            "shorten the cluster's certificate-authority-data or its config for the plugin, "
            "or set provideClusterInfo to false if the plugin does not need it"
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
    """Return the name and value of an entry that contains ``=``."""
    # A leading '=' is part of the name if there is another one, as in some variables of Windows.
    at = entry.find(b"=", 1)
    at = entry.find(b"=") if entry[:1] != b"=" or at < 0 else at
    return entry[:at], entry[at + 1 :]


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
