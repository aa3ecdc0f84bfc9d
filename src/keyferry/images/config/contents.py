"""The files of a provider config before they are decoded: which they are, and their hash."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.host_root import is_on_host, on_host, read_on_host
from keyferry.errors import Problem

_EXTENSIONS = (".json", ".yaml", ".yml")


class UnreadableError(Exception):
    """A config of which nothing can be read, and the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def config_files(path: str) -> list[str]:
    """Return the files of the config at *path*, in the order in which they are merged."""
    if not path:
        text = "credential provider config path is empty"
        raise UnreadableError(Problem("", "no config path was given", code="KF101", kubernetes_text=text))
    try:
        mode = os.stat(on_host(path)).st_mode
        if not stat.S_ISDIR(mode):
            return [path]
        with os.scandir(on_host(path)) as entries:
            # Sorted below by the bytes of the whole path, so 10.yaml comes before 2.yaml.
            names = [
                entry.name
                for entry in entries
                if os.path.splitext("x" + entry.name)[1] in _EXTENSIONS
                and not entry.is_dir(follow_symlinks=False)
            ]
    except (OSError, ValueError) as error:
        text = f"unable to access path {quote(path)}: stat {path}: {go_strerror(error)}"
        message = f"cannot be read: {go_strerror(error)}"
        raise UnreadableError(Problem("", message, code="KF101", kubernetes_text=text, file=path)) from None
    if not names:
        text = f"no configuration files found in directory {quote(path)}"
        message = f"the directory holds no {', '.join(_EXTENSIONS[:-1])} or {_EXTENSIONS[-1]} file"
        raise UnreadableError(Problem("", message, code="KF102", kubernetes_text=text, file=path))
    return sorted((os.path.join(path, name) for name in names), key=os.fsencode)


def config_hash(contents: Iterable[bytes]) -> str:
    """Return the hash that the kubelet exports, over the length, as 8 bytes, and the content of each file."""
    import hashlib

    digest = hashlib.sha256()
    for data in contents:
        digest.update(len(data).to_bytes(8, "big") + data)
    return f"sha256:{digest.hexdigest()}"


def hash_of_files(path: str) -> str:
    """Return the hash of the config at *path*; empty if it cannot be read, or not twice, such as a pipe."""
    try:
        files = config_files(path)
        if not all(is_on_host(each, os.path.isfile) for each in files):
            return ""
        return config_hash(map(read_on_host, files))
    except (UnreadableError, OSError):
        return ""
