"""Shims that stand in a plugin's place: tell one, and find the plugin behind it.

The kubelet executes the shim ``NAME``. Beside it are ``NAME.agent``, a link whose target is the agent's socket, and the
plugin: ``NAME.real`` where the shim stands in front of it, ``NAME.beside`` where the shim has a provider of its own.
"""

from __future__ import annotations

import os
import stat

from keyferry._core.host_root import is_on_host, on_host

LINK = ".agent"
IN_FRONT = ".real"
BESIDE = ".beside"
BEHIND = (IN_FRONT, BESIDE)
# In pieces, so that no file that holds this source is taken for a shim.
MARK = b"@(#)" + b"keyferry-shim"
# No shim is larger; plugins are searched for the mark only up to this size.
MAX_SHIM_BYTES = 256 << 10


def is_shim(path: str) -> bool:
    """Return whether the program at *path* is a shim of keyferry; False if it cannot be read."""
    try:
        return read_shim_mark(path)
    except (OSError, ValueError):
        return False


def read_shim_mark(path: str) -> bool:
    """Return whether the program at *path* has the mark of a shim; raise OSError or ValueError if it cannot be read."""
    # A named pipe in the place of a program is not waited for.
    fd = os.open(on_host(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(fd)
        is_program = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SHIM_BYTES
        return is_program and MARK in os.read(fd, MAX_SHIM_BYTES)
    finally:
        os.close(fd)


def plugin_behind(path: str) -> str:
    """Return the plugin behind the shim at *path*, *path* if it is no shim, or nothing if no plugin is behind it."""
    if not is_shim(path):
        return path
    return next((path + suffix for suffix in BEHIND if is_on_host(path + suffix)), "")


def program_behind(path: str) -> str:
    """Return what to run for a plugin: the one behind an installed shim, else *path* itself."""
    try:
        os.lstat(on_host(path + LINK, follows=False))
    except (OSError, ValueError):
        return path
    return plugin_behind(path) or path
