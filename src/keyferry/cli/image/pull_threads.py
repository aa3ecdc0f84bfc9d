"""Several pulls at once, which an interrupt ends without waiting for them."""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import TypeVar

    from keyferry.images.reference import ImageName

    _Result = TypeVar("_Result")

__all__ = ["run_in_parallel"]

_GRACE_SECONDS = 1.0
_WAIT_SECONDS = 0.2


def run_in_parallel(
    number: int,
    work: "Callable[[ImageName], _Result]",
    images: "Sequence[ImageName]",
    cancel: Callable[[], None],
) -> "tuple[_Result, ...]":
    """Do *work* for each image, so many at a time; results come in the order of the images.

    If it is interrupted *cancel* is called, and what does not end then in a moment is left to end with the process.
    """
    todo: SimpleQueue[tuple[int, ImageName]] = SimpleQueue()
    done: SimpleQueue[tuple[int, _Result | BaseException]] = SimpleQueue()
    for each in enumerate(images):
        todo.put(each)
    # Not of an executor: Python would wait for those at its exit, however long a server keeps them.
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
    work: "Callable[[ImageName], _Result]",
    todo: "SimpleQueue[tuple[int, ImageName]]",
    done: "SimpleQueue[tuple[int, _Result | BaseException]]",
) -> None:
    while True:
        try:
            at, image = todo.get_nowait()
        except Empty:
            return
        try:
            done.put((at, work(image)))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            done.put((at, error))


def _collect(done: "SimpleQueue[tuple[int, _Result | BaseException]]", number: int) -> "tuple[_Result, ...]":
    results: dict[int, _Result] = {}
    while len(results) < number:
        try:
            # A signal may come right before the wait and be seen only after it, so no wait is long.
            at, result = done.get(timeout=_WAIT_SECONDS)
        except Empty:
            continue
        if isinstance(result, BaseException):
            raise result
        results[at] = result
    return tuple(results[at] for at in range(number))
