"""Detect a running kubelet, and refuse pulls and writes that would interfere with it.

A kubelet treats images that it did not pull as preloaded, and expects to be the only writer of its records.
"""

from __future__ import annotations

import os
import socket
import socket as sockets
import struct
from contextlib import closing

from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem
from keyferry.images.node.kubelet import KUBELET_ROOT, Kubelet
from keyferry.images.node.settings import Node

# The sockets that a kubelet listens on, and the folders that it makes, below its root.
_SOCKETS = ("pod-resources/kubelet.sock", "device-plugins/kubelet.sock")
_FOLDERS = ("pods", "plugins", "plugins_registry", "pod-resources")
_MAX_ADDRESS = 107


class _Presence(Value):
    """The kubelet that was found, as text for a message, or the reason why an undetected one is possible."""

    who: str = ""
    doubt: str = ""


def check_runtime(socket: str, node: Node, *, no_kubelet: bool = False) -> None:
    """Raise EnvironmentProblem if a kubelet uses the runtime, so that a private image must not be pulled into it.

    With *no_kubelet*, raise only if a kubelet is found, not if its absence cannot be established.
    """
    what = (
        "a kubelet treats images that it did not pull as preloaded, and every pod of the node may use them without a "
        "credential; let a pod pull the image, pull it into a folder (--to), or let every pod use it with "
        "--preload (preload=True)"
    )
    presence, place = _on_runtime(socket, node), f"the container runtime at {socket}"
    _refuse(presence, f"{presence.who} uses {place}", place, what, no_kubelet=no_kubelet)


def check_root(root: str, node: Node, *, no_kubelet: bool = False) -> None:
    """Raise EnvironmentProblem if a running kubelet uses *root*, so that its records must not be written.

    With *no_kubelet*, raise only if a kubelet is found, not if its absence cannot be established.
    """
    what = (
        "a running kubelet does not see what other programs write to its records, and overwrites it; stop it first, "
        "or use another root"
    )
    presence = _on_root(root, node)
    found = f"{root} is the root of {presence.who}"
    _refuse(presence, found, f"the root {root}", what, no_kubelet=no_kubelet)


def _refuse(presence: _Presence, found: str, place: str, what: str, *, no_kubelet: bool) -> None:
    """Raise if a kubelet was found, or, unless *no_kubelet* is set, if one may use *place*."""
    if presence.who:
        raise EnvironmentProblem(f"{found}: {what}")
    if presence.doubt and not no_kubelet:
        raise EnvironmentProblem(
            f"cannot tell whether a kubelet uses {place}: {presence.doubt}; {what}; "
            "if there is no kubelet, pass --no-kubelet (no_kubelet=True)"
        )


def _on_runtime(socket: str, node: Node) -> _Presence:
    owner = _listener(socket)
    users = {os.geteuid()} if owner is None else {os.geteuid(), owner[1]}
    for kubelet in node.kubelets.found:
        # Processes of other users count only if that user runs the runtime: an unrelated user must not be able to
        # block a pull by starting a process that looks like a kubelet.
        if kubelet.belongs_to(users) and _uses_runtime(kubelet, node, socket):
            return _Presence(who=_name(kubelet))
    # Inside a container, a runtime whose process is visible runs in the same container, and so does its kubelet.
    is_beside_us = node.kubelets.is_contained and owner is not None and owner[0] > 0
    return _Presence(doubt="" if is_beside_us else node.kubelets.hidden)


def _on_root(root: str, node: Node) -> _Presence:
    for name in _SOCKETS:
        path = os.path.join(root, name)
        if _listener(path) is not None:
            return _Presence(who=f"a kubelet that listens at {path}")
    users = {os.geteuid(), *_owner(root)}
    for kubelet in node.kubelets.found:
        used = kubelet.flags.get("--root-dir") or KUBELET_ROOT
        if kubelet.belongs_to(users) and _is_same(kubelet.inside(used), root):
            return _Presence(who=_name(kubelet))
    # A folder without a kubelet's folders has never been a kubelet's root.
    is_kubelets = any(os.path.lexists(os.path.join(root, name)) for name in _FOLDERS)
    return _Presence(doubt=node.kubelets.hidden if is_kubelets else "")


def _uses_runtime(kubelet: Kubelet, node: Node, socket: str) -> bool:
    """Return whether *kubelet* uses the runtime at *socket*; True if its settings are not known."""
    if not kubelet.is_trusted:
        return True
    settings = node.settings_of(kubelet)
    if settings.endpoint is None:
        return True
    endpoints = (settings.endpoint, settings.image_endpoint)
    addresses = [each.value.removeprefix("unix://") for each in endpoints if each is not None]
    return any(_is_same(kubelet.inside(each), socket) for each in addresses if "://" not in each)


def _name(kubelet: Kubelet) -> str:
    return f"a kubelet (process {kubelet.pid})"


def _is_same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def _owner(path: str) -> tuple[int, ...]:
    try:
        return (os.stat(path).st_uid,)
    except OSError:
        return ()


def _listener(path: str) -> tuple[int, int] | None:
    """Return the ids of the process and user that listen on a unix socket, or None if nothing listens.

    The process id is 0 if the process is not visible.
    """
    if not hasattr(sockets, "SO_PEERCRED"):
        return None
    with closing(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)) as connection:
        # Without blocking, so that a busy listener causes no wait.
        connection.setblocking(False)
        try:
            _connect(connection, path)
        except BlockingIOError:
            return 0, os.geteuid()
        except OSError:
            return None
        raw = connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid


def _connect(connection: socket.socket, path: str) -> None:
    """Connect to a path of any length, although a socket address is limited to about a hundred bytes."""
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        connection.connect(path)
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
