"""A folder that stays open between two looks at it, for as long as its path leads to it.

To open folders one below the other, following no link, costs several calls to the system for each of them. To ask
whether the path still leads to the folder that was opened so, and not to a link or another one, costs a single call.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from weakref import finalize, ref

from keyferry._core.files import Folder

__all__ = ["MOST_OPEN", "KeptFolder"]

# For all of a process: it may have thousands of these, and often no more than a thousand descriptors.
MOST_OPEN = 64
_OpenedFolder = TypeVar("_OpenedFolder", Folder, Folder | None)
_Identity = tuple[int, int, int, tuple[int, ...]]


class _Opened(NamedTuple):
    folder: Folder
    identity: _Identity
    is_made: bool


class KeptFolder:
    """The folder at *path*, opened again only if that is not the same folder any more, or its owner or mode changed.

    Safe to use from many threads: a folder that was given out stays open until nobody has it any more. So those who
    use it do not close it; nor do they list its names, since all would share one place in the list. A process that
    was forked opens its own.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: _Opened | None = None
        self._is_listed = False

    def open(self, how: Callable[[], _OpenedFolder], *, makes: bool = False) -> _OpenedFolder:
        """The folder, opened by *how* if it has to be; one that *makes* it is not spared by one that does not.

        Raises what *how* raises. Nothing is kept of a folder that is not there, or has no descriptor.
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
        """Let go of the folder; it can be opened again."""
        self._opened = None

    def _is_still(self, identity: _Identity) -> bool:
        try:
            return identity == _identify(os.lstat(self._path))
        except OSError:
            return False

    def _list(self) -> None:
        """Count it among those that are open, and close the one that was counted first if they are too many."""
        # Without a lock, which a fork could find taken: each step is whole by itself, and none is popped unless added.
        if self._is_listed:
            return
        self._is_listed = True
        _open_ones.append(ref(self))
        if len(_open_ones) > MOST_OPEN:
            oldest = _open_ones.popleft()()
            if oldest is not None:
                oldest._is_listed = False  # noqa: SLF001 - one of this class
                oldest.close()


_open_ones: "deque[ref[KeptFolder]]" = deque()


def _identify(found: os.stat_result) -> _Identity:
    """The process and its user, a folder's owner, and its mode, inode and device."""
    return os.getpid(), os.geteuid(), found.st_uid, found[:3]


def _close(pid: int, fd: int) -> None:
    # In a process that was forked the number may long be that of another file.
    if os.getpid() == pid:
        os.close(fd)
