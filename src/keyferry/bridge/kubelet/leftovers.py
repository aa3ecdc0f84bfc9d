"""What an agent that has ended leaves beside its socket, and its removal."""

from __future__ import annotations

import os
import stat

from keyferry._net.agent import try_agent
from keyferry.errors import EnvironmentProblem

__all__ = ["remove_socket_folder"]

_CONNECT_SECONDS = 1.0


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
