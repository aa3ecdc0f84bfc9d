"""Fetch the blobs of an image into a layout: in parallel, each only once, and further from where it broke off."""

from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event, Lock
from time import sleep

from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem, HttpError, Kind, RegistryError
from keyferry.pulls.layout.draft import Draft
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.manifest import Descriptor
from keyferry.pulls.registry.client import Registry
from keyferry.pulls.registry.transport import Deadline

__all__ = ["FetchContext", "Meter", "Progress", "fetch_blob", "fetch_blobs"]

_MOST_BREAKS = 3
# A connection that brought so much was worth while, and may break off once more.
_ENOUGH = 1 << 20
_PAUSE_SECONDS = 0.05


class Progress(Value):
    """How far a pull has come, in bytes; what was there already counts as done."""

    done: int
    total: int


class Meter:
    """Counts what all threads of a pull have done, and tells whoever wants to know."""

    def __init__(self, total: int, tell: Callable[[Progress], None] | None) -> None:
        self._lock = Lock()
        self._done = 0
        self._total = total
        self._tell = tell

    def add(self, size: int) -> None:
        """Note bytes that are there; a negative number for those that turned out to be of no use."""
        if self._tell is None:
            return
        with self._lock:
            self._done += size
            self._tell(Progress(self._done, self._total))


class FetchContext(Value):
    """What fetching blobs needs: from where, to where, until when, and whether to stop."""

    registry: Registry
    layout: Layout
    deadline: Deadline
    meter: Meter
    stop: Event


def fetch_blobs(
    work: FetchContext, blobs: Sequence[Descriptor], threads: int, interrupt: Callable[[], None]
) -> None:
    """Fetch all that are not there yet; raises what the first to fail raised. *interrupt* wakes up those who wait."""
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

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
    """Fetch one blob, unless it is there, or somebody else is about to have fetched it."""
    while not work.layout.has(blob):
        with work.layout.drafts() as drafts, closing(Draft(drafts, blob)) as draft:
            # Looked for once more: it may have been finished between the first look and the lock.
            if draft.lock() and not work.layout.has(blob):
                work.layout.remove(blob.digest)
                _complete(work, blob, draft)
                work.layout.adopt(drafts, blob.digest)
                return
        if work.stop.is_set() or work.deadline.seconds_left <= 0:
            raise RegistryError(work.registry.name, 0, f"{blob.digest}: not there in time", Kind.TIMEOUT)
        sleep(_PAUSE_SECONDS)
    work.meter.add(blob.size)


def _complete(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    """Fetch what is missing in a draft, until its digest is right and all of it is on the disk."""
    try:
        draft.resume()
        work.meter.add(draft.size)
        was_resumed = draft.size > 0
        _fetch_rest(work, blob, draft)
        if not draft.is_complete() and was_resumed:
            # What was left from another time may be at fault, and gets one fresh start.
            _restart(work, draft)
            _fetch_rest(work, blob, draft)
        if not draft.is_complete():
            _restart(work, draft)
            raise _content_error(work, f"what it sent for {blob.digest} has another digest")
        draft.sync()
    except OSError as error:
        raise EnvironmentProblem(f"{work.layout.folder}: cannot store a layer: {error.strerror}") from None


def _restart(work: FetchContext, draft: Draft) -> None:
    work.meter.add(-draft.size)
    draft.restart()


def _fetch_rest(work: FetchContext, blob: Descriptor, draft: Draft) -> None:
    """Fetch until the size is right; a connection that breaks off is taken up again, a few times."""
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
    """Read one answer into the draft; the registry may begin anew where we asked for the rest."""
    answer, start = work.registry.open_blob(blob, draft.size)
    with answer:
        if start != draft.size:
            _restart(work, draft)
        for piece in answer.pieces(is_timed=False):
            if draft.size + len(piece) > blob.size:
                raise _content_error(work, f"sends more bytes for {blob.digest} than its manifest says")
            draft.write(piece)
            work.meter.add(len(piece))
            if work.stop.is_set():
                raise RegistryError(work.registry.name, 0, "interrupted", Kind.ERROR)
    if draft.size < blob.size:
        raise _content_error(work, f"sends fewer bytes for {blob.digest} than its manifest says")


def _content_error(work: FetchContext, message: str) -> RegistryError:
    return RegistryError(work.registry.name, 0, message, Kind.CONTENT)
