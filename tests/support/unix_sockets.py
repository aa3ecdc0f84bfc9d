"""Unix sockets below folders of any length: an address of the system's holds about a hundred bytes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield an address for *path* that is short, however long the names of its folders are."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bind(made: socket.socket, path: Path) -> None:
    """Bind a socket to a path of any length."""
    with short_address(path) as address:
        made.bind(address)
