"""The folder of the agent's socket: given to the agent's user, so that it can listen there, and removed again."""

from __future__ import annotations

import os
import stat

from keyferry._core.files import Folder, open_folder
from keyferry._net.agent import try_agent
from keyferry.errors import EnvironmentProblem

_MODE = 0o750
_OTHERS_WRITE = 0o022
_CONNECT_SECONDS = 1.0


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


def remove_socket_folder(path: str) -> tuple[str, ...]:
    """Remove the socket at *path*, its lock and its folder; return the names of other files, which keep the folder.

    Raise EnvironmentProblem if an agent listens there, or a file cannot be removed.
    """
    folder = os.path.dirname(path)
    if _is_served(path):
        raise EnvironmentProblem(f"{path}: an agent listens here; stop it first")
    try:
        for name in _own_names(folder, os.path.basename(path)):
            os.unlink(os.path.join(folder, name))
        others = tuple(sorted(os.listdir(folder)))
        if not others:
            os.rmdir(folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise EnvironmentProblem(f"{error.filename or folder}: cannot be removed: {reason}") from None
    return others


def _is_served(path: str) -> bool:
    # Whoever owns the socket: nothing is sent.
    fallback = try_agent(path, _CONNECT_SECONDS, owner=None)
    if fallback is not None and not fallback.is_unattended:
        raise EnvironmentProblem(f"{path}: whether an agent listens here is not known: {fallback.message}")
    return fallback is None


def _own_names(folder: str, socket_name: str) -> list[str]:
    """Return the names of what agents put there: the lock, and sockets under their name or that of a draft."""
    lock = f"{socket_name}.lock"
    return [
        each.name
        for each in os.scandir(folder)
        if each.name == lock or (_is_socket(each) and _is_of_agent(each.name, socket_name))
    ]


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _is_of_agent(name: str, socket_name: str) -> bool:
    stem, _, process = name.rpartition(".")
    return name == socket_name or (stem == socket_name and process.isdecimal())
