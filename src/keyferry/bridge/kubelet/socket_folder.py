"""Give the folder of the agent's socket to the agent's user, so that an agent that is not root can listen there."""

from __future__ import annotations

import os
import stat

from keyferry._core.files import Folder, open_folder
from keyferry.errors import EnvironmentProblem

__all__ = ["give_socket_folder"]

_MODE = 0o750
_OTHERS_WRITE = 0o022


def give_socket_folder(socket: str, user: int) -> None:
    """Make the folder of *socket* unless it exists, and give it to *user*, with what an agent left in it.

    Raise EnvironmentProblem if the folder holds anything else, or cannot be given away.
    """
    path, name = os.path.split(socket)
    try:
        with open_folder(path, make=_MODE) as folder:
            if folder.status().st_uid != user:
                _give(folder, name, user)
            # Neither the agent nor its clients trust a folder that others can write.
            folder.restrict(stat.S_IMODE(folder.status().st_mode) & ~_OTHERS_WRITE)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise EnvironmentProblem(f"{path!r} cannot be given to user {user}: {reason}") from None


def _give(folder: Folder, name: str, user: int) -> None:
    names = folder.names()
    others = [each for each in names if not each.startswith(name) or not _is_left_by_an_agent(folder, each)]
    if others:
        raise EnvironmentProblem(
            f"{folder.path!r} holds other files, such as {others[0]!r}; give the socket a folder of its own"
        )
    for each in names:
        place, at = folder.place(each)
        os.chown(place, user, -1, dir_fd=at, follow_symlinks=False)
    os.chown(folder.path if folder.descriptor is None else folder.descriptor, user, -1)


def _is_left_by_an_agent(folder: Folder, name: str) -> bool:
    """Return whether it is a socket or a file of its own: a second name of another file must not be given away."""
    found = folder.status_of(name)
    return stat.S_ISSOCK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
