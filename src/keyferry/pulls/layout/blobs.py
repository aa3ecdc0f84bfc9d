"""Fetch the blobs of an image into a layout: in parallel, each only once, and resuming interrupted downloads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event
from time import sleep

from keyferry._core.files import Folder
from keyferry._core.values import Value
from keyferry._net.deadline import Deadline
from keyferry.errors import EnvironmentProblem, HttpError, Kind, RegistryError
from keyferry.pulls.layout.folder import Layout, draft_name
from keyferry.pulls.layout.meter import Meter
from keyferry.pulls.manifest import Descriptor, hasher
from keyferry.pulls.registry.client import Registry

__all__ = ["FetchContext", "fetch_blob", "fetch_blobs"]

_MOST_BREAKS = 3
# A connection that delivered this many bytes does not count as a failed one.
_ENOUGH = 1 << 20
_PAUSE_SECONDS = 0.05
_PIECE = 1 << 20
# TLS delivers 16 KiB at a time, and to hash and write each of these alone takes as long as to decrypt it.
_BATCH = 1 << 17
_MODE = 0o644


class FetchContext(Value):
    """The arguments that all blobs of a pull share: source, destination, deadline, progress and stop signal."""

    registry: Registry
    layout: Layout
    deadline: Deadline
    meter: Meter
    stop: Event


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
        # What is not written yet; the size counts it.
        self._held: list[bytes] = []
        self._held_bytes = 0
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
        self._held, self._held_bytes = [], 0
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Append *piece*; it is written with others after it, or by `flush`."""
        self._held.append(piece)
        self._held_bytes += len(piece)
        self.size += len(piece)
        if self._held_bytes >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        batch, at = b"".join(self._held), self.size - self._held_bytes
        self._held, self._held_bytes = [], 0
        self._digest.update(batch)
        while batch:
            written = os.pwrite(self._fd, batch, at)
            batch, at = batch[written:], at + written

    def is_complete(self) -> bool:
        """Return whether the content has the size and the digest of the blob."""
        self.flush()
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
        """Close the file, which unlocks it; the file remains, for a later pull to go on with."""
        try:
            self.flush()
        except OSError:
            pass  # what is lost is fetched again
        finally:
            os.close(self._fd)


def fetch_blobs(
    work: FetchContext, blobs: Sequence[Descriptor], threads: int, interrupt: Callable[[], None]
) -> None:
    """Fetch the blobs that are not stored yet; raise the error of the first that fails.

    *interrupt* ends the requests of the other threads after a failure.
    """
    with ThreadPoolExecutor(min(threads, len(blobs) or 1), thread_name_prefix="keyferry-blob") as pool:
        futures = [pool.submit(fetch_blob, work, blob) for blob in blobs]
        try:
            done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            done, waiting = set(), set(futures)
            raise
        finally:
            if waiting:
                work.stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                interrupt()
    for future in futures:
        if future in done:
            future.result()


def fetch_blob(work: FetchContext, blob: Descriptor) -> None:
    """Fetch one blob, unless it is stored; wait while another process fetches it."""
    while not work.layout.has(blob):
        with work.layout.drafts() as drafts, closing(Draft(drafts, blob)) as draft:
            # Checked again, because another process may have stored it before the lock was acquired.
            if draft.lock() and not work.layout.has(blob):
                work.layout.remove(blob.digest)
                _complete(work, blob, draft)
                work.layout.adopt(drafts, blob.digest)
                return
        if work.stop.is_set() or work.deadline.seconds_left <= 0:
            raise RegistryError(work.registry.name, 0, f"{blob.digest}: not fetched in time", Kind.TIMEOUT)
        sleep(_PAUSE_SECONDS)
    work.meter.set(blob, blob.size)


def _complete(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    """Fetch the missing bytes of a draft, verify its digest and write it durably to the disk."""
    try:
        draft.resume()
        work.meter.set(blob, draft.size)
        was_resumed = draft.size > 0
        _fetch_rest(work, blob, draft)
        if not draft.is_complete() and was_resumed:
            # The bytes of an earlier pull may be wrong, so the blob is fetched once from the start.
            _restart(work, blob, draft)
            _fetch_rest(work, blob, draft)
        if not draft.is_complete():
            _restart(work, blob, draft)
            raise _content_error(work, f"the content it sent for {blob.digest} has another digest")
        draft.sync()
    except OSError as error:
        raise EnvironmentProblem(f"{work.layout.folder}: cannot store a layer: {error.strerror}") from None


def _restart(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    draft.restart()
    work.meter.set(blob, 0)


def _fetch_rest(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    """Fetch until the size is reached; resume after a broken connection, a limited number of times."""
    breaks = 0
    while draft.size < blob.size:
        before = draft.size
        try:
            _receive(work, blob, draft)
        except HttpError as error:
            breaks = 0 if draft.size - before >= _ENOUGH else breaks + 1
            if work.stop.is_set() or error.is_timeout or breaks > _MOST_BREAKS:
                raise RegistryError(work.registry.name, 0, str(error), error.kind) from None


def _receive(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    """Read one response into the draft; the registry may send the whole blob although the rest was requested."""
    answer, start = work.registry.open_blob(blob, draft.size)
    with answer:
        if start != draft.size:
            _restart(work, blob, draft)
        for piece in answer.pieces(is_timed=False):
            if draft.size + len(piece) > blob.size:
                raise _content_error(work, f"sends more bytes for {blob.digest} than the manifest states")
            draft.write(piece)
            work.meter.set(blob, draft.size)
            if work.stop.is_set():
                raise RegistryError(work.registry.name, 0, "interrupted", Kind.ERROR)
    if draft.size < blob.size:
        raise _content_error(work, f"sends fewer bytes for {blob.digest} than the manifest states")


def _content_error(work: FetchContext, message: str) -> RegistryError:
    return RegistryError(work.registry.name, 0, message, Kind.CONTENT)
