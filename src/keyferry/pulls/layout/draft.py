"""A blob on its way: a file that grows, and the hash of exactly what is in it."""

import os

from keyferry._core.files import Folder
from keyferry.errors import EnvironmentProblem
from keyferry.pulls.layout.folder import draft_name
from keyferry.pulls.manifest import Descriptor, hasher

__all__ = ["Draft"]

_PIECE = 1 << 20
_MODE = 0o644


class Draft:
    """The file of one blob; *size* bytes of it are written and hashed, and nothing stands behind them."""

    def __init__(self, folder: Folder, blob: Descriptor) -> None:
        self._folder = folder
        self._name = draft_name(blob.digest)
        try:
            self._fd = folder.open_own(self._name, os.O_RDWR | os.O_CREAT, _MODE)
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename}: {error.strerror}") from None
        self._blob = blob
        self._digest = hasher(blob.digest)
        self.size = 0

    def lock(self) -> bool:
        """Have it to ourselves; False if another has it, or has finished it while we looked."""
        try:
            return self._folder.lock(self._fd, self._name, waits=False)
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename}: cannot be locked: {error.strerror}") from None

    def resume(self) -> None:
        """Hash what an earlier pull has left; more than the blob has is of no use."""
        if os.fstat(self._fd).st_size > self._blob.size:
            self.restart()
        while piece := os.pread(self._fd, _PIECE, self.size):
            self._digest.update(piece)
            self.size += len(piece)

    def restart(self) -> None:
        """Forget everything."""
        os.ftruncate(self._fd, 0)
        self._digest = hasher(self._blob.digest)
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Add what comes next."""
        self._digest.update(piece)
        written = os.pwrite(self._fd, piece, self.size)
        while written < len(piece):
            written += os.pwrite(self._fd, piece[written:], self.size + written)
        self.size += len(piece)

    def is_complete(self) -> bool:
        """Tell whether it is the blob, by size and digest."""
        is_whole = self.size == self._blob.size == os.fstat(self._fd).st_size
        return is_whole and self._blob.digest.endswith(f":{self._digest.hexdigest()}")

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        # One for each blob, before the blob has its name. A single sync of all blobs before the image gets into the
        # index would keep the index whole, but not the blobs: their names could be on the disk before their content,
        # and other tools take what has a digest's name in blobs/ for that digest, in the index or not. syncfs would
        # also wait for everything else that is being written on this file system.
        os.fsync(self._fd)

    def close(self) -> None:
        """Close it, which unlocks it; the file stays."""
        os.close(self._fd)
