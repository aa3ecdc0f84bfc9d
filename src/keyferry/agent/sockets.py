"""The agent's socket: bound beside its place and renamed into it, or inherited from systemd; and who is at the end."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from keyferry._core.gotext import go_strerror
from keyferry._net.listen_address import ListenAddress, why_too_long
from keyferry.agent.access import Caller
from keyferry.errors import EnvironmentProblem

# The kernel's own limit (net.core.somaxconn) is 4096 by default.
BACKLOG = 4096
_FIRST_INHERITED = 3
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_SEARCH = stat.S_IXOTH
_FOLDER_MODE = 0o750
_CREDENTIALS = struct.Struct("iII")
# Linux has had it since 4.13; Python has no name for it.
_SO_PEERGROUPS = 59
# In bytes, for 64 groups and for 256; Python takes no more, and of a caller in more groups the primary one counts.
_GROUPS_SIZES = (256, 1024)
# Linux has had it since 6.5; Python has no name for it.
_SO_PEERPIDFD = 77
_DESCRIPTOR = struct.Struct("i")
# The kernel cuts the name of a task after so many bytes.
_MAX_TASK_NAME = 15
_ROOT = 0


class Listener:
    """A socket that listens, and the path of it if this process put it there."""

    def __init__(self, bound: socket.socket, path: str, identity: tuple[int, int] | None) -> None:
        self.socket = bound
        self.path = path
        self._identity = identity

    @property
    def is_inherited(self) -> bool:
        """Whether another process, such as systemd, owns the path."""
        return self._identity is None

    def is_in_place(self) -> bool:
        """Return whether the path still leads to this socket, and not to that of a later process."""
        return self._identity is None or _identify(self.path) == self._identity

    def remove(self) -> None:
        """Remove the path if it still leads to this socket; one that was inherited stays."""
        if self._identity is None:
            return
        with _locked(self.path):
            if self.is_in_place():
                os.unlink(self.path)


def bind_socket(path: str, mode: int, group: int | None = None) -> Listener:
    """Return a socket that listens at *path*; a socket that was there is replaced without a gap.

    Clients of the replaced socket stay connected to its process. Raise EnvironmentProblem if the folder is not safe,
    or something else than a socket is in the place.
    """
    problem = why_too_long(path)
    if problem:
        raise EnvironmentProblem(f"{path}: {problem}")
    folder = os.path.dirname(path)
    make_folder(folder, mode)
    check_folder(folder)
    try:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot listen: {go_strerror(error)}") from None
    try:
        return Listener(bound, path, _put_in_place(bound, path, mode, group))
    except OSError as error:
        bound.close()
        raise EnvironmentProblem(f"{path}: cannot listen: {go_strerror(error)}") from None
    except BaseException:
        bound.close()
        raise


def _put_in_place(bound: socket.socket, path: str, mode: int, group: int | None) -> tuple[int, int]:
    draft = f"{path}.{os.getpid()}"
    with _locked(path):
        _remove_draft(draft)
        before = os.umask(0o177)
        try:
            bound.bind(draft)
        finally:
            os.umask(before)
        try:
            if group is not None:
                os.chown(draft, -1, group)
            os.chmod(draft, mode)
            # It listens before it is found, so that no client is refused.
            bound.listen(BACKLOG)
            _check_replaced(path)
            identity = _identify(draft)
            os.rename(draft, path)
        except BaseException:
            _remove_draft(draft)
            raise
    assert identity is not None  # noqa: S101 - it was bound in a folder that nobody else can write
    return identity


def make_folder(folder: str, socket_mode: int) -> None:
    """Create the socket's folder, unless it exists; others can enter it if they may use the socket."""
    mode = _FOLDER_MODE | (_OTHERS_SEARCH if socket_mode & 0o007 else 0)
    try:
        os.mkdir(folder, mode)
        os.chmod(folder, mode)  # whatever the umask is
    except FileExistsError:
        pass
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be created: {go_strerror(error)}") from None


def check_folder(folder: str) -> None:
    """Raise EnvironmentProblem if users other than root and this one could replace what is in *folder*.

    A folder above it may be writable by all if it is sticky, such as /tmp.
    """
    current = os.path.realpath(folder)
    is_top = True
    while True:
        try:
            found = os.stat(current)
        except OSError as error:
            raise EnvironmentProblem(f"{current}: {go_strerror(error)}") from None
        if not stat.S_ISDIR(found.st_mode):
            raise EnvironmentProblem(f"{current}: is not a folder")
        if found.st_uid not in (_ROOT, os.geteuid()):
            message = f"user {found.st_uid} owns this folder and could replace the socket"
            raise EnvironmentProblem(f"{current}: {message}; use a folder of root or of user {os.geteuid()}")
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and not is_top
        if found.st_mode & _OTHERS_WRITE and not is_sticky:
            message = "other users can write this folder and could replace the socket"
            raise EnvironmentProblem(f"{current}: {message}; {_cure(current, found.st_mode)}")
        if current == os.path.dirname(current):
            return
        current, is_top = os.path.dirname(current), False


def _cure(folder: str, mode: int) -> str:
    # A sticky folder, such as /tmp, is meant for all users.
    if mode & stat.S_ISVTX:
        return f"use a folder of its own, such as {os.path.join(folder, 'keyferry')}"
    return f"run chmod go-w {folder}"


def inherit_sockets(environ: MutableMapping[str, str], pid: int) -> list[Listener]:
    """Return the sockets that systemd has opened for this process; they are neither bound nor removed here.

    The variables that name them are removed, so that plugins do not see them. Raise EnvironmentProblem for what is no
    listening Unix socket.
    """
    number, owner = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if owner != str(pid) or not number.isdecimal():
        return []
    return [_inherit(descriptor) for descriptor in range(_FIRST_INHERITED, _FIRST_INHERITED + int(number))]


def _inherit(descriptor: int) -> Listener:
    try:
        os.set_inheritable(descriptor, False)
        taken = socket.socket(fileno=descriptor)
        is_listening = bool(taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError as error:
        raise EnvironmentProblem(f"LISTEN_FDS: descriptor {descriptor}: {go_strerror(error)}") from None
    if taken.family != socket.AF_UNIX or taken.type != socket.SOCK_STREAM or not is_listening:
        raise EnvironmentProblem(f"LISTEN_FDS: descriptor {descriptor} is no listening Unix socket")
    taken.setblocking(False)
    name = taken.getsockname()
    return Listener(taken, name if isinstance(name, str) else os.fsdecode(name), None)


def has_hung_up(connected: socket.socket) -> bool:
    """Return whether the other end is closed altogether; one that only sends no more still reads."""
    polled = select.poll()
    polled.register(connected, 0)
    return any(events & select.POLLHUP for _, events in polled.poll(0))


def peer_of(connected: socket.socket) -> Caller:
    """Return who is at the other end of a connection, by its user and all its groups when it connected."""
    pid, uid, gid = _CREDENTIALS.unpack(
        connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return Caller(uid=uid, gids=frozenset((gid, *_groups_of(connected))), pid=pid)


def _groups_of(connected: socket.socket) -> tuple[int, ...]:
    for size in _GROUPS_SIZES:
        try:
            data = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, size)
        except OSError as error:
            if error.errno != errno.ERANGE:
                return ()  # a kernel without it: the primary group counts
            continue
        return struct.unpack(f"{len(data) // 4}I", data)
    return ()


def named_peer_of(connected: socket.socket) -> Caller:
    """Return who is at the other end of a connection, with its program, to be shown to people; it decides nothing."""
    caller = peer_of(connected)
    return Caller(
        uid=caller.uid, gids=caller.gids, pid=caller.pid, program=_program_of(connected, caller.pid)
    )


def _program_of(connected: socket.socket, pid: int) -> str:
    """Return the program of the process that connected; empty if it cannot be told."""
    if pid <= 0:
        return ""  # it is in another PID namespace
    try:
        descriptor = _DESCRIPTOR.unpack(
            connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, _DESCRIPTOR.size)
        )[0]
    except OSError as error:
        # A kernel without it: the process may have ended, and another one may have its number.
        return _read_name(pid) if error.errno == errno.ENOPROTOOPT else ""
    try:
        name = _read_name(pid)
        # The number was that of the process for as long as the process was there.
        return name if _is_there(descriptor) else ""
    finally:
        os.close(descriptor)


def _is_there(descriptor: int) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_name(pid: int) -> str:
    """Return the path of a program, and the name of its task if it is another, as that of a script is."""
    try:
        # Not a stream, which takes twice as long.
        opened = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            task = os.read(opened, 64).rstrip(b"\n")
        finally:
            os.close(opened)
    except OSError:
        return ""
    try:
        path = os.readlink(f"/proc/{pid}/exe".encode())
    except OSError:
        return _decode(task)  # only root and the process' own user may read it
    name = os.path.basename(path)[:_MAX_TASK_NAME]
    return _decode(path) if name == task else f"{_decode(path)} ({_decode(task)})"


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _remove_draft(draft: str) -> None:
    try:
        os.unlink(draft)
    except FileNotFoundError:
        pass


def _check_replaced(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise EnvironmentProblem(f"{path}: exists and is no socket; it is not replaced")


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock beside *path*, so that no process removes the socket that another one is just putting there."""
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise EnvironmentProblem(f"{path}.lock: cannot be opened: {go_strerror(error)}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def listen_at(
    address: ListenAddress, setting: str, backlog: int, *, is_shared: bool = False
) -> socket.socket:
    """Return a TCP socket that listens at the address of a setting; raise EnvironmentProblem if it cannot.

    A successor can listen there before this process has ended. If the address *is_shared*, this process is one.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Set before the address is bound, it shares the address; set afterwards, it lets others of this user share it.
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((address.host, address.port))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.listen(backlog)
    except OSError as error:
        bound.close()
        raise EnvironmentProblem(f"{setting}: cannot listen at {address}: {go_strerror(error)}") from None
    return bound
