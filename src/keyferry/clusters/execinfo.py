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
    return [name + b"=" + value for name, value in os.environb.items()]


def plugin_entries(environ: Iterable[bytes], env: Iterable[tuple[str, str]], info: str) -> list[bytes]:
    """Everything a plugin's environment is made of, in order, repeated names included.

    What is told about the cluster comes last, so neither the environment nor a config can replace it.
    """
    configured = [_encode(f"{name}={value}") for name, value in env]
    return [*environ, *configured, _encode(f"{EXEC_INFO}={info}")]


def merge_entries(entries: Iterable[bytes]) -> tuple[bytes, ...]:
    """*entries* with only the last of each name, where it stands; EnvironmentProblem if one holds a NUL.

    As in Go's ``os/exec``, one without '=' names nothing, so that none replaces another.
    """
    kept: dict[bytes | int, bytes] = {}
    for number, entry in enumerate(entries):
        if b"\0" in entry:
            # The name is left out as well: whoever cannot spell a value may have put it there.
            message = "an environment variable for the plugin contains a NUL"
            raise EnvironmentProblem(message, "exec: environment variable contains NUL")
        name = _split(entry)[0] if b"=" in entry else number
        kept.pop(name, None)
        if entry:
            kept[name] = entry
    return tuple(kept.values())


def to_mapping(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """Merged entries as a mapping in the same order.

    A variable without a name, and an entry without '=', are dropped: Python cannot pass them.
    """
    pairs = (_split(entry) for entry in entries if b"=" in entry)
    return {name: value for name, value in pairs if name}


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
    # A leading '=' belongs to the name if there is another: Windows has such variables.
    at = entry.find(b"=", 1)
    at = entry.find(b"=") if entry[:1] != b"=" or at < 0 else at
    return (entry, b"") if at < 0 else (entry[:at], entry[at + 1 :])


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
