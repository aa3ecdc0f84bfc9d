"""Parallel pulls that an interrupt ends without waiting for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

from keyferry.images.reference import ImageName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Result = TypeVar("_Result")

__all__ = ["run_in_parallel"]

_GRACE_SECONDS = 1.0
_WAIT_SECONDS = 0.2


def run_in_parallel(
    number: int,
    work: Callable[[ImageName], _Result],
    images: Sequence[ImageName],
    cancel: Callable[[], None],
) -> tuple[_Result, ...]:
    """Call *work* for each image, *number* at a time; return the results in the order of the images.

    After an interrupt or error, *cancel* is called. Threads that do not end within a second end with the process.
    """
    todo: SimpleQueue[tuple[int, ImageName]] = SimpleQueue()
    done: SimpleQueue[tuple[int, _Result | BaseException]] = SimpleQueue()
    for each in enumerate(images):
        todo.put(each)
    # Not an executor's threads: at its exit Python waits for those, however long a server takes.
    threads = [Thread(target=_serve, args=(work, todo, done), daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        return _collect(done, len(images))
    except BaseException:
        cancel()
        until = monotonic() + _GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        raise


def _serve(
    work: Callable[[ImageName], _Result],
    todo: SimpleQueue[tuple[int, ImageName]],
    done: SimpleQueue[tuple[int, _Result | BaseException]],
) -> None:
    while True:
        try:
            at, image = todo.get_nowait()
        except Empty:
            return
        try:
            done.put((at, work(image)))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            done.put((at, error))


def _collect(done: SimpleQueue[tuple[int, _Result | BaseException]], number: int) -> tuple[_Result, ...]:
    results: dict[int, _Result] = {}
    while len(results) < number:
        try:
            # A signal that arrives right before the wait is handled only after it, so each wait is short.
            at, result = done.get(timeout=_WAIT_SECONDS)
        except Empty:
            continue
        if isinstance(result, BaseException):
            raise result
        results[at] = result
    return tuple(results[at] for at in range(number))
