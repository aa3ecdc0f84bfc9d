"""The progress of a pull: how many bytes and layers of an image are in the folder."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from keyferry._core.values import Value
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.manifest import Descriptor, ImageManifest

__all__ = ["Meter", "Progress"]


class Progress(Value):
    """The progress of a pull, in bytes and in layers; what was already stored counts as done.

    *found* is the number of bytes that were stored before the pull began, by an earlier pull or for another image.
    """

    done: int
    total: int
    layers_done: int = 0
    layers: int = 0
    found: int = 0


class Meter:
    """The number of stored bytes of each blob, set by all threads of a pull; *tell* is called after each change."""

    def __init__(
        self, manifest: ImageManifest, layout: Layout, tell: Callable[[Progress], None] | None
    ) -> None:
        self._tell = tell
        self._lock = Lock()
        if tell is None:
            return
        self._stored = {blob.digest: layout.bytes_of(blob) for blob in manifest.blobs}
        self._layers = {layer.digest for layer in manifest.layers}
        self._total = sum(blob.size for blob in manifest.blobs)
        self._found = self._done = sum(self._stored.values())
        self._layers_done = sum(
            blob.digest in self._layers and self._stored[blob.digest] == blob.size for blob in manifest.blobs
        )
        tell(self._progress())

    def set(self, blob: Descriptor, size: int) -> None:
        """Set the number of bytes of *blob* that are stored."""
        if self._tell is None:
            return
        with self._lock:
            before = self._stored[blob.digest]
            if size == before:
                return
            self._stored[blob.digest] = size
            self._done += size - before
            if blob.digest in self._layers:
                self._layers_done += (size == blob.size) - (before == blob.size)
            self._tell(self._progress())

    def _progress(self) -> Progress:
        return Progress(
            done=self._done,
            total=self._total,
            layers_done=self._layers_done,
            layers=len(self._layers),
            found=self._found,
        )
