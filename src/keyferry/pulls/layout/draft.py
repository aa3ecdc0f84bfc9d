"""A partly fetched blob: a file, and the hash of its content."""

import os

from keyferry._core.files import Folder
from keyferry.errors import EnvironmentProblem
from keyferry.pulls.layout.folder import draft_name
from keyferry.pulls.manifest import Descriptor, hasher

__all__ = ["Draft"]

_PIECE = 1 << 20
_MODE = 0o644


class Draft:
    """The file of one partly fetched blob; *size* is the number of bytes that are written and hashed."""

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
        """Lock the file; return False if another process has locked it, or has renamed it in the meantime."""
        try:
            return self._folder.lock(self._fd, self._name, waits=False)
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename}: cannot be locked: {error.strerror}") from None

    def resume(self) -> None:
        """Hash the content that an earlier pull has left; discard it if it is longer than the blob."""
        if os.fstat(self._fd).st_size > self._blob.size:
            self.restart()
        while piece := os.pread(self._fd, _PIECE, self.size):
            self._digest.update(piece)
            self.size += len(piece)

    def restart(self) -> None:
        """Discard the content."""
        os.ftruncate(self._fd, 0)
        self._digest = hasher(self._blob.digest)
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Append *piece*."""
        self._digest.update(piece)
        written = os.pwrite(self._fd, piece, self.size)
        while written < len(piece):
            written += os.pwrite(self._fd, piece[written:], self.size + written)
        self.size += len(piece)

    def is_complete(self) -> bool:
        """Return whether the content has the size and the digest of the blob."""
        is_whole = self.size == self._blob.size == os.fstat(self._fd).st_size
        return is_whole and self._blob.digest.endswith(f":{self._digest.hexdigest()}")

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        # Once for each blob, before it gets its final name. A single sync of all blobs before the image is added to the
        # index would protect the index, but not the blobs: their names could reach the disk before their content, and
        # other tools trust a file in blobs/ by its name, whether it is in the index or not. syncfs would also wait for
        # all other writes to this file system.
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file, which unlocks it; the file remains."""
        os.close(self._fd)
