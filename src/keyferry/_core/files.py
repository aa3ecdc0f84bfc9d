"""Access to files by name in a folder that is opened once, without following links below it.

All operations are relative to the folder's descriptor, so that a folder cannot be replaced by a link between two steps.
Folders of other users are rejected. Where the system lacks such calls (Windows), paths are used, and each name is only
checked for being a link.
"""

from __future__ import annotations

import errno
import os
import stat
from select import select
from types import TracebackType

from keyferry._core.gotext import go_strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# Do not wait for the writer of a named pipe, do not acquire a controlling terminal, do not translate line ends.
_FLAGS = ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", "O_NOINHERIT")
_ALWAYS = sum(getattr(os, name, 0) for name in _FLAGS)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# A folder on the way need not be readable.
_STEP = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | _NO_LINK
    | getattr(os, "O_CLOEXEC", 0)
)
MAX_LINKS = 40  # as in Linux


class DistrustedError(OSError):
    """A link where links are not followed, or a file or folder that another user may have prepared."""


class Folder:
    """An open folder and operations on its names, for use in a ``with`` block.

    Every error is an OSError with the whole path. *owners* are the users that the folders below it may belong to: root,
    this user, and the owner of the folder that was opened first. Unless *durable*, no operation waits for the disk.
    """

    def __init__(
        self, path: str, fd: int | None, owners: frozenset[int] = frozenset(), *, durable: bool = True
    ) -> None:
        self.path = path
        self.owners = owners
        self.durable = durable
        self._fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def descriptor(self) -> int | None:
        """The folder's descriptor; None where paths are used."""
        return self._fd

    def close(self) -> None:
        """Close the folder's descriptor."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def like(self, path: str, fd: int | None) -> Folder:
        """Return a folder with the same *owners* and *durable* as this one."""
        return Folder(path, fd, self.owners, durable=self.durable)

    def path_of(self, name: str) -> str:
        """Return the whole path of *name*, for messages."""
        return os.path.join(self.path, name)

    def place(self, name: str) -> tuple[str, int | None]:
        """Return the arguments that address *name*: a name and the descriptor, or the whole path and None."""
        return (self.path_of(name), None) if self._fd is None else (name, self._fd)

    def status(self) -> os.stat_result:
        """Return the status of the folder itself."""
        return os.lstat(self.path) if self._fd is None else os.fstat(self._fd)

    def status_of(self, name: str) -> os.stat_result:
        """Return the status of *name*; links are not followed."""
        with _Naming(self, name):
            place, at = self.place(name)
            return os.stat(place, dir_fd=at, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Return whether *name* exists."""
        try:
            self.status_of(name)
        except FileNotFoundError:
            return False
        return True

    def names(self, *, folders: bool | None = None) -> list[str]:
        """Return the names in the folder, sorted: all of them, only those of *folders*, or only the others."""
        with _Naming(self), os.scandir(self.path if self._fd is None else self._fd) as entries:
            return sorted(
                each.name
                for each in entries
                if folders is None or each.is_dir(follow_symlinks=False) == folders
            )

    def below(self, name: str, *, make: int | None = None) -> Folder:
        """Open the folder *name* in this one; with a mode in *make*, create it first. Raises DistrustedError."""
        path = self.path_of(name)
        with _Naming(self, name):
            place, at = self.place(name)
            if make is not None:
                try:
                    os.mkdir(place, make, dir_fd=at)
                    self.sync()
                except FileExistsError:
                    pass
            if stat.S_ISLNK(self.status_of(name).st_mode):
                raise DistrustedError(errno.ELOOP, "it is a symbolic link, which is not followed", path)
            fd = None if at is None else os.open(place, _FOLDER | _NO_LINK, dir_fd=at)
        folder = self.like(path, fd)
        try:
            self._check_owner(folder.status(), path)
        except BaseException:
            folder.close()
            raise
        return folder

    def descend(self, *names: str, make: int | None = None) -> Folder:
        """Open the folder at the end of *names*, one below the other; close this one and those in between."""
        folder = self
        for name in names:
            with folder:
                folder = folder.below(name, make=make)
        return folder

    def restrict(self, mode: int) -> None:
        """Set the mode of the folder."""
        with _Naming(self):
            os.chmod(self.path if self._fd is None else self._fd, mode)

    def sync(self) -> None:
        """Wait until the folder's names are on the disk."""
        if self.durable and self._fd is not None:
            with _Naming(self):
                os.fsync(self._fd)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Open a file without waiting; a link is an error."""
        place, at = self.place(name)
        try:
            return os.open(place, flags | _ALWAYS, mode, dir_fd=at)
        except OSError as error:
            error.filename = self.path_of(name)
            raise

    def open_own(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file to write in place; raise DistrustedError for a special file, several links or a foreign owner."""
        fd = self.open(name, flags, mode)
        path = self.path_of(name)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise DistrustedError(errno.EPERM, "it is not a regular file; remove it", path)
            if found.st_nlink > 1:
                raise DistrustedError(
                    errno.EPERM, f"it has {found.st_nlink} hard links, expected 1; remove it", path
                )
            self._check_owner(found, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def create(self, name: str, mode: int) -> int:
        """Create a file and open it for writing; the name must not exist, not even as a link."""
        return self.open(name, _CREATE, mode)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of *data* to the descriptor *fd*."""
        write_all(fd, data)

    def sync_file(self, fd: int) -> None:
        """Wait until the file's content is on the disk."""
        if self.durable:
            os.fsync(fd)

    def rename(self, name: str, target: str, folder: Folder | None = None) -> None:
        """Rename a file atomically, here or into another folder; a file with the name *target* is replaced."""
        to = folder or self
        with _Naming(to, target):
            source, at = self.place(name)
            place, there = to.place(target)
            os.replace(source, place, src_dir_fd=at, dst_dir_fd=there)

    def unlink(self, name: str) -> None:
        """Remove a file; a name that does not exist is ignored."""
        with _Naming(self, name):
            place, at = self.place(name)
            try:
                os.unlink(place, dir_fd=at)
            except FileNotFoundError:
                pass

    def discard(self, name: str) -> None:
        """Remove a file after an error, which is not hidden if the file cannot be removed."""
        try:
            self.unlink(name)
        except OSError:
            pass

    def replace(
        self,
        name: str,
        data: bytes,
        *,
        mode: int,
        is_exact: bool = False,
        draft: str = "",
        drafts: Folder | None = None,
        owner: tuple[int, int] | None = None,
    ) -> None:
        """Write a file atomically: it has all of its new content, on the disk, or its old content.

        The data is written to a file named *draft*, here or in the folder *drafts*, which is then renamed. The umask
        applies to *mode* unless *is_exact*. With *owner*, the file gets that user and group.
        """
        drafts = drafts or self
        draft = draft or _draft_of(name)
        try:
            fd = drafts.create(draft, mode)
            with _Naming(self, name):
                drafts.fill(fd, data, mode if is_exact else None, owner)
            drafts.rename(draft, name, self)
        except BaseException:
            drafts.discard(draft)
            raise
        self.sync()

    def fill(self, fd: int, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> None:
        """Write all of *data* to a new file, and close it once that is on the disk; set *mode* and *owner* before."""
        try:
            if owner is not None:
                _give(fd, owner)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(fd, mode)
            self.write(fd, data)
            self.sync_file(fd)
        finally:
            os.close(fd)

    def exchange(self, name: str, before: bytes, after: bytes | None) -> bool:
        """Replace a file with the content *before* atomically; its owner, group and mode stay. None removes it.

        Return False, and leave the file as it is, if it has another content or was replaced meanwhile: it is opened
        once, and content, owner and mode are those of the open file. Raises DistrustedError for a special file or one
        with several hard links.
        """
        fd = self.open(name)
        draft = _draft_of(f".{name}")
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise DistrustedError(
                    errno.EPERM, "it is not a regular file with one name", self.path_of(name)
                )
            if after is not None:
                new = self.create(draft, 0o600)
                with _Naming(self, name):
                    self.fill(new, after, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))
            if _read(fd, len(before) + 1) != before or not self.is_at(fd, name):
                return False
            if after is None:
                self.unlink(name)
            else:
                self.rename(draft, name)
            self.sync()
        finally:
            os.close(fd)
            self.discard(draft)
        return True

    def is_at(self, fd: int, name: str) -> bool:
        """Return whether *name* still refers to the open file *fd*."""
        try:
            return os.path.samestat(os.fstat(fd), self.status_of(name))
        except FileNotFoundError:
            return False

    def lock(self, fd: int, name: str, *, waits: bool) -> bool:
        """Lock an open file exclusively; return whether the lock is held and *name* still refers to the file.

        The lock on a file that was replaced during the wait excludes nobody. Closing the file releases the lock.
        """
        from fcntl import LOCK_EX, LOCK_NB, flock

        with _Naming(self, name):
            try:
                flock(fd, LOCK_EX if waits else LOCK_EX | LOCK_NB)
            except BlockingIOError:
                return False
        return self.is_at(fd, name)

    def lock_file(self, name: str, mode: int = 0o600, *, waits: bool) -> int | None:
        """Open or create a file and lock it; return None if it is locked already or was replaced meanwhile.

        Each call opens the file anew, so that threads exclude each other as well. Closing the file releases the lock.
        """
        fd = self.open_own(name, os.O_RDWR | os.O_CREAT, mode)
        is_held = False
        try:
            is_held = self.lock(fd, name, waits=waits)
        finally:
            if not is_held:
                os.close(fd)
        return fd if is_held else None

    def _check_owner(self, found: os.stat_result, path: str) -> None:
        if self.owners and found.st_uid not in self.owners:
            expected = " or ".join(map(str, sorted(self.owners)))
            message = f"it belongs to user {found.st_uid}, expected user {expected}; remove it"
            raise DistrustedError(errno.EPERM, message, path)


class _Naming:
    """Puts the whole path into an OSError that was raised for a relative name."""

    def __init__(self, folder: Folder, name: str = "") -> None:
        self._folder = folder
        self._name = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            error.filename = self._folder.path_of(self._name) if self._name else self._folder.path
            if error.filename2 is not None:
                # An error with None in this place would show it.
                del error.filename2


def reason_of(error: OSError, path: str) -> str:
    """Return why an operation on *path* failed, and where, if that is a link on the way to it."""
    if isinstance(error, DistrustedError):
        where = "" if error.filename in (None, path) else f"{error.filename!r}: "
        return f"{where}{error.strerror}"
    return go_strerror(error)


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data* to a descriptor, in as many calls as the system needs, even if it does not block."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select([], [fd], [])


def is_open(fd: int) -> bool:
    """Return whether *fd* is an open descriptor."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _read(fd: int, most: int) -> bytes:
    with open(fd, "rb", closefd=False) as stream:
        return stream.read(most)


def open_folder(
    path: str, *names: str, make: int | None = None, durable: bool = True, is_strict: bool = False
) -> Folder:
    """Open the folder at *path*, following links, then each of *names* below it, not following links.

    With a mode in *make*, missing folders are created. Raises OSError, and DistrustedError for a name that is a link or
    a folder that belongs neither to root, nor to this user, nor to the owner of *path*. If *is_strict*, links are
    followed as in ``open_path``.
    """
    if is_strict:
        folder, names = _open_strictly(path, names, make)
        folder.durable = durable
        return folder.descend(*names, make=make)
    path, missing = (path or os.curdir, ()) if make is None else _split_missing(path)
    fd = os.open(path or os.curdir, _FOLDER) if _HAS_DESCRIPTORS else None
    found = os.stat((path or os.curdir) if fd is None else fd)
    owners = frozenset((0, os.geteuid(), found.st_uid) if hasattr(os, "geteuid") else ())
    return Folder(path, fd, owners, durable=durable).descend(*missing, *names, make=make)


def open_path(path: str) -> tuple[Folder, tuple[str, ...]]:
    """Open the folders of *path*, one below the other; return the last one, and the names of what is not a folder.

    That is the name of a file, or the names of all that is missing. A link is followed only if root or this user made
    it, in a folder of theirs: another user can let it lead to a file that only root can write, or change it between two
    steps. Raises OSError, and DistrustedError for such a link.
    """
    if not _HAS_DESCRIPTORS:
        there, missing = _split_missing(os.path.realpath(path))
        return Folder(there, None), missing
    here, left = ("/" if path.startswith("/") else ""), names_of(path)
    at, links = os.open(here or os.curdir, _STEP), 0
    try:
        while left:
            try:
                found = os.stat(left[-1], dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                break
            if stat.S_ISLNK(found.st_mode):
                there = os.path.join(here, left[-1])
                _check_link(there, found, os.fstat(at))
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), there)
                target = os.readlink(left.pop(), dir_fd=at)
                left += names_of(target)
                if not target.startswith("/"):
                    continue
                here, following = "/", os.open("/", _STEP)
            elif stat.S_ISDIR(found.st_mode):
                following = os.open(left[-1], _STEP, dir_fd=at)
                here = os.path.join(here, left.pop())
            else:
                break
            os.close(at)
            at = following
        fd = os.open(os.curdir, _FOLDER, dir_fd=at)
    except OSError as error:
        error.filename = error.filename if isinstance(error, DistrustedError) else path
        raise
    finally:
        os.close(at)
    owners = frozenset((0, os.geteuid(), os.fstat(fd).st_uid))
    return Folder(here or os.curdir, fd, owners), tuple(reversed(left))


def names_of(path: str) -> list[str]:
    """Return the names in *path*, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _check_link(path: str, link: os.stat_result, folder: os.stat_result) -> None:
    # In a namespace of users root may have another number: that of the owner of "/".
    trusted = (0, os.geteuid(), os.stat("/").st_uid)
    for found, what in ((link, "it is a link of user"), (folder, "it is a link in a folder of user")):
        if found.st_uid not in trusted:
            message = f"{what} {found.st_uid}, which is not followed; {_as_user(found.st_uid)}"
            raise DistrustedError(errno.ELOOP, message, path)


def _open_strictly(path: str, names: tuple[str, ...], make: int | None) -> tuple[Folder, tuple[str, ...]]:
    folder, missing = open_path(path)
    if missing and make is None:
        folder.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return folder, (*missing, *names)


def _draft_of(name: str) -> str:
    return f"{name}.{os.getpid()}.{os.urandom(6).hex()}"


def _give(fd: int, owner: tuple[int, int]) -> None:
    """Give a file to its owner, unless it is theirs."""
    found = os.fstat(fd)
    if (found.st_uid, found.st_gid) == owner or not hasattr(os, "fchown"):
        return
    try:
        os.fchown(fd, *owner)
    except PermissionError:
        message = f"it belongs to user {owner[0]} and group {owner[1]}, which this user cannot keep"
        raise DistrustedError(errno.EPERM, f"{message}; {_as_user(owner[0])}") from None


def _as_user(user: int) -> str:
    return f"run the command as that user: sudo -u '#{user}'"


def _split_missing(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the longest part of *path* that is a folder, and the names of the folders to create below it."""
    missing: tuple[str, ...] = ()
    while path and not os.path.isdir(path):
        path, name = os.path.split(path)
        missing = (name, *missing) if name else missing
    return path or ("" if missing else os.curdir), missing
