"""Files by their names in a folder that is opened once: no link below it is followed, no folder of a stranger used.

Everything is done relative to the folder's descriptor, so that nobody can exchange a folder for a link between two
steps. Where the system has no such calls (Windows), paths are used, and links are only looked for.
"""

import errno
import os
import stat

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["DistrustedError", "Folder", "open_folder"]

_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# A named pipe that nobody writes to is not waited for, a terminal does not become ours, and bytes stay as they are.
_FLAGS = ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", "O_NOINHERIT")
_ALWAYS = sum(getattr(os, name, 0) for name in _FLAGS)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class DistrustedError(OSError):
    """A link where none is followed, or a file or folder that somebody else could have prepared."""


class Folder:
    """A folder, and what is in it by name. Use it in a ``with`` block; errors are OSErrors that name the whole path.

    *owners* are the users that the folders below it may belong to: root, this user, and the owner of the folder
    that was named first. Without *durable* nothing waits for the disk.
    """

    def __init__(
        self, path: str, fd: int | None, owners: "frozenset[int]" = frozenset(), *, durable: bool = True
    ) -> None:
        self.path = path
        self.owners = owners
        self.durable = durable
        self._fd = fd

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        self.close()

    @property
    def descriptor(self) -> int | None:
        """What the system knows it by; None where paths are used."""
        return self._fd

    def close(self) -> None:
        """Let go of the folder."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def like(self, path: str, fd: int | None) -> "Folder":
        """Another folder of the same kind."""
        return Folder(path, fd, self.owners, durable=self.durable)

    def path_of(self, name: str) -> str:
        """The whole path of a name, for people."""
        return os.path.join(self.path, name)

    def place(self, name: str) -> tuple[str, int | None]:
        """How the system finds a name: below the descriptor, or by its path."""
        return (self.path_of(name), None) if self._fd is None else (name, self._fd)

    def status(self) -> os.stat_result:
        """What the system knows of the folder itself."""
        return os.lstat(self.path) if self._fd is None else os.fstat(self._fd)

    def status_of(self, name: str) -> os.stat_result:
        """What the system knows of a name; of a link, not of what it leads to."""
        with _Naming(self, name):
            place, at = self.place(name)
            return os.stat(place, dir_fd=at, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Tell whether there is anything of that name."""
        try:
            self.status_of(name)
        except FileNotFoundError:
            return False
        return True

    def names(self, *, folders: bool | None = None) -> list[str]:
        """The names in it, in order: all of them, only folders, or only what is none."""
        with _Naming(self), os.scandir(self.path if self._fd is None else self._fd) as entries:
            return sorted(
                each.name
                for each in entries
                if folders is None or each.is_dir(follow_symlinks=False) == folders
            )

    def below(self, name: str, *, make: int | None = None) -> "Folder":
        """A folder in this one; with a mode to *make* it with, if it is not there. Raises DistrustedError."""
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

    def descend(self, *names: str, make: int | None = None) -> "Folder":
        """Go on to the folder below it by *names*; this one and those on the way are closed."""
        folder = self
        for name in names:
            with folder:
                folder = folder.below(name, make=make)
        return folder

    def restrict(self, mode: int) -> None:
        """Give the folder another mode."""
        with _Naming(self):
            os.chmod(self.path if self._fd is None else self._fd, mode)

    def sync(self) -> None:
        """Wait until the folder's names are on the disk."""
        if self.durable and self._fd is not None:
            with _Naming(self):
                os.fsync(self._fd)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Open a file; a link is an error, and nothing is waited for."""
        place, at = self.place(name)
        try:
            return os.open(place, flags | _ALWAYS, mode, dir_fd=at)
        except OSError as error:
            # What is there or not is often asked in this way, so without the cost of a ``with``.
            error.filename = self.path_of(name)
            raise

    def open_own(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file to write in place; DistrustedError for one that would have us write elsewhere, or for others."""
        fd = self.open(name, flags, mode)
        path = self.path_of(name)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise DistrustedError(errno.EPERM, "it is not a regular file; remove it", path)
            if found.st_nlink > 1:
                raise DistrustedError(errno.EPERM, f"it has {found.st_nlink} names; remove it", path)
            self._check_owner(found, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def create(self, name: str, mode: int) -> int:
        """Make a file, and open it for writing; it must not be there yet, not even as a link."""
        return self.open(name, _CREATE, mode)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of *data* to a file."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def sync_file(self, fd: int) -> None:
        """Wait until a file's content is on the disk."""
        if self.durable:
            os.fsync(fd)

    def rename(self, name: str, target: str, folder: "Folder | None" = None) -> None:
        """Put a file in the place of another, in one step, here or in another folder."""
        to = folder or self
        with _Naming(to, target):
            source, at = self.place(name)
            place, there = to.place(target)
            os.replace(source, place, src_dir_fd=at, dst_dir_fd=there)

    def unlink(self, name: str) -> None:
        """Remove a file; one that is not there is fine."""
        with _Naming(self, name):
            place, at = self.place(name)
            try:
                os.unlink(place, dir_fd=at)
            except FileNotFoundError:
                pass

    def replace(
        self,
        name: str,
        data: bytes,
        *,
        mode: int,
        is_exact: bool = False,
        draft: str = "",
        drafts: "Folder | None" = None,
    ) -> None:
        """Write a file so that it is there with all of its content, on the disk, or as it was before.

        It is written under the name *draft*, here or in the folder *drafts*, and then gets its own. The umask takes
        from its mode, unless that *is_exact*.
        """
        drafts = drafts or self
        draft = draft or f"{name}.{os.getpid()}.{os.urandom(6).hex()}"
        try:
            fd = drafts.create(draft, mode)
            try:
                if is_exact and hasattr(os, "fchmod"):
                    os.fchmod(fd, mode)
                drafts.write(fd, data)
                drafts.sync_file(fd)
            finally:
                os.close(fd)
            drafts.rename(draft, name, self)
        except BaseException:
            drafts.unlink(draft)
            raise
        self.sync()

    def is_at(self, fd: int, name: str) -> bool:
        """Tell whether an open file still has the name *name*."""
        try:
            return os.path.samestat(os.fstat(fd), self.status_of(name))
        except FileNotFoundError:
            return False

    def lock(self, fd: int, name: str, *, waits: bool) -> bool:
        """Lock an open file against everybody else; True if it is had, and the file still has its name.

        A file that was replaced while one waited locks nobody out. Closing it unlocks it.
        """
        from fcntl import LOCK_EX, LOCK_NB, flock

        with _Naming(self, name):
            try:
                flock(fd, LOCK_EX if waits else LOCK_EX | LOCK_NB)
            except BlockingIOError:
                return False
        return self.is_at(fd, name)

    def lock_file(self, name: str, mode: int = 0o600, *, waits: bool) -> int | None:
        """Open a file, made if it is not there, and lock it; None if another has it, or it was replaced meanwhile.

        The file is opened anew each time, so that threads exclude each other as well. Closing it unlocks it.
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
    """Gives errors the whole path, where the system was told a part of it."""

    def __init__(self, folder: Folder, name: str = "") -> None:
        self._folder = folder
        self._name = name

    def __enter__(self) -> None:
        """Nothing to do before."""

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if isinstance(error, OSError):
            error.filename = self._folder.path_of(self._name) if self._name else self._folder.path
            error.filename2 = None


def open_folder(path: str, *names: str, make: int | None = None, durable: bool = True) -> Folder:
    """Open a folder by its path, links and all, and from there on one below the other by *names*, without.

    With a mode to *make*, those that are not there are made. Raises OSError, and DistrustedError for a name that is
    a link, or a folder that belongs neither to root, nor to this user, nor to the owner of *path*.
    """
    path, missing = (path or os.curdir, ()) if make is None else _split_missing(path)
    fd = os.open(path or os.curdir, _FOLDER) if _HAS_DESCRIPTORS else None
    found = os.stat((path or os.curdir) if fd is None else fd)
    owners = frozenset((0, os.geteuid(), found.st_uid) if hasattr(os, "geteuid") else ())
    return Folder(path, fd, owners, durable=durable).descend(*missing, *names, make=make)


def _split_missing(path: str) -> tuple[str, tuple[str, ...]]:
    """The part of a path that is a folder, and the names of those that are to be made below it."""
    missing: tuple[str, ...] = ()
    while path and not os.path.isdir(path):
        path, name = os.path.split(path)
        missing = (name, *missing) if name else missing
    return path or ("" if missing else os.curdir), missing
