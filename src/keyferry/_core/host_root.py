"""A node whose files are below a folder: a debug container sees the root of its host there.

It is the view of this whole process, as ``chroot`` gives it to others: everybody who reads a file of the node has the
node's own path, which messages show, and opens ``on_host(path)``. Without a host root that is the path itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from keyferry._core.bounded import open_now, read_path, read_stream
from keyferry._core.files import MAX_LINKS
from keyferry.errors import EnvironmentProblem

# The bit of CAP_SYS_CHROOT in a set of capabilities.
_CAN_CHROOT = 1 << 18

_folder = ""


@contextmanager
def use_host_root(folder: str) -> Iterator[None]:
    """Find the node's files below *folder* in this block, in all threads; empty for the files of this process.

    Raise EnvironmentProblem if there is no such folder.
    """
    global _folder  # noqa: PLW0603 - one view for the whole process, like its working directory
    found = os.path.realpath(folder) if folder else ""
    if found and not os.path.isdir(found):
        raise EnvironmentProblem(f"host root {folder!r}: it is not a folder")
    before, _folder = _folder, "" if found == "/" else found
    try:
        yield
    finally:
        _folder = before


def host_root() -> str:
    """Return the folder that the node's files are below; empty if they are those of this process."""
    return _folder


def host_root_notes() -> tuple[str, ...]:
    """Return a note that tells where the node's files are, if that is below a folder."""
    return (f"the node's files are those below {_folder}; the paths are the node's own",) if _folder else ()


def on_host(path: str, *, follows: bool = True) -> str:
    """Return where this process finds the file that the node has at *path*.

    Links are followed as on the node: an absolute one starts at the host root, and no ``..`` leads out of it. Unless
    *follows*, the last name is not followed. Raise OSError, for a loop of links as well.
    """
    return path if not _folder or not path else resolve_below(_folder, path, follows=follows)


def place_on_host(path: str) -> str:
    """Return ``on_host(path)`` for a command to paste, which follows links from its own root; else below the root."""
    try:
        return on_host(path)
    except OSError:
        return _folder + path


def is_on_host(path: str, kind: Callable[[str], bool] = os.path.exists) -> bool:
    """Return whether the node has a file at *path*, and *kind* is true of it; False if that cannot be told."""
    try:
        return kind(on_host(path))
    except OSError:
        return False


def read_on_host(path: str) -> bytes:
    """Return the bytes of a file of the node; raise OSError or ValueError as ``read_path`` does.

    Below a host root, only a regular file is read: nobody there writes to a pipe for this process.
    """
    if not _folder:
        return read_path(path)
    with open(on_host(path), "rb", opener=open_now) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return read_stream(stream)


def resolve_below(root: str, path: str, *, follows: bool = True) -> str:
    """Return the place of *path* in the file system below *root*, as the kernel finds it after ``chroot``.

    What does not exist has a place, too. Raise OSError.
    """
    here, left, links = root, _names_of(path), 0
    while left:
        name = left.pop()
        there = os.path.join(here, name)
        if not left and not follows and name not in (".", ".."):
            return there
        try:
            target = os.readlink(there)
        except FileNotFoundError:
            # What is left does not exist either, and ".." does not lead out of what does not exist.
            return os.path.join(there, *(each for each in reversed(left) if each != ".."))
        except OSError as error:
            if error.errno != errno.EINVAL:
                error.filename = path
                raise
            # Not a link; the folder above the root is the root.
            if name == "..":
                here = here if here == root else os.path.dirname(here)
            elif name != ".":
                here = there
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        here = root if target.startswith("/") else here
        left += _names_of(target)
    return here


def _names_of(path: str) -> list[str]:
    """Return the names in *path*, the last one first; a slash at the end is the folder itself."""
    names = [name for name in reversed(path.split("/")) if name]
    return [".", *names] if path.endswith("/") else names


def check_chroot() -> None:
    """Raise EnvironmentProblem if there is a host root, and this process may not run programs of the node in it."""
    if not _folder or _may_chroot():
        return
    raise EnvironmentProblem(
        f"plugins are programs of the node, and run with {_folder} as their root (chroot), which needs root; run the "
        "command as root, or with --no-run, which runs no plugin"
    )


def _may_chroot() -> bool:
    try:
        with open("/proc/self/status", "rb") as stream:
            for line in stream:
                if line.startswith(b"CapEff:"):
                    return bool(int(line.split()[1], 16) & _CAN_CHROOT)
    except (OSError, ValueError, IndexError):
        pass
    return os.geteuid() == 0
