"""A folder that stays open between uses, for as long as its path leads to it.

Opening nested folders without following links takes several system calls for each of them. Checking that the path still
leads to the same folder takes one call.
"""

from __future__ import annotations

import os
from collections import deque
from weakref import finalize, ref

from keyferry._core.files import Folder
from keyferry._core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _OpenedFolder = TypeVar("_OpenedFolder", Folder, Folder | None)

__all__ = ["MOST_OPEN", "KeptFolder"]

# For the whole process: it may have thousands of kept folders, and is often limited to a thousand descriptors.
MOST_OPEN = 64
_Identity = tuple[int, int, int, tuple[int, ...]]


class _Opened(Value):
    folder: Folder
    identity: _Identity
    is_made: bool


class KeptFolder:
    """The folder at *path*, opened again only if the path leads elsewhere, or the owner or the mode changed.

    Safe to use from many threads: a folder stays open until its last user drops it. So users do not close it. They do
    not list its names either, because they share one position in the listing. A forked process opens its own folder.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: _Opened | None = None
        self._is_listed = False

    def open(self, how: Callable[[], _OpenedFolder], *, makes: bool = False) -> _OpenedFolder:
        """Return the folder; call *how* to open it unless it is open, and was opened with *makes* if that is set.

        Raises what *how* raises. A folder that does not exist or has no descriptor is not kept.
        """
        opened = self._opened
        if opened is not None and opened.is_made >= makes and self._is_still(opened.identity):
            return opened.folder
        self.close()
        folder = how()
        if folder is not None and folder.descriptor is not None:
            finalize(folder, _close, os.getpid(), folder.descriptor)
            self._opened = _Opened(folder, _identify(folder.status()), makes)
            self._list()
        return folder

    def close(self) -> None:
        """Drop the folder; the next call of ``open`` opens it again."""
        self._opened = None

    def _is_still(self, identity: _Identity) -> bool:
        try:
            return identity == _identify(os.lstat(self._path))
        except OSError:
            return False

    def _list(self) -> None:
        """Add this to the open ones, and close the oldest if there are too many."""
        # There is no lock, which could be held during a fork: each step is atomic, and only added ones are popped.
        if self._is_listed:
            return
        self._is_listed = True
        _open_ones.append(ref(self))
        if len(_open_ones) > MOST_OPEN:
            oldest = _open_ones.popleft()()
            if oldest is not None:
                oldest._is_listed = False  # noqa: SLF001 - an object of this class
                oldest.close()


_open_ones: deque[ref[KeptFolder]] = deque()


def _identify(found: os.stat_result) -> _Identity:
    """Return the process, its user, the folder's owner, and its mode, inode and device."""
    return os.getpid(), os.geteuid(), found.st_uid, found[:3]


def _close(pid: int, fd: int) -> None:
    # In a forked process the number may belong to another file.
    if os.getpid() == pid:
        os.close(fd)
