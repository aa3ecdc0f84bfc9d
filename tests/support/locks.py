"""Lock files, held and replaced as other processes do it."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Long enough for a thread that should not have waited to show it; the assertions hold however slow a machine is.
_LITTLE_SECONDS = 0.3
PATIENCE_SECONDS = 60.0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock for the length of a block, as another process does."""
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def replaced_while_waited_for(path: Path, wait_and_work: Callable[[], None]) -> None:
    """Let a thread wait for a lock, replace the file by another locked one, and release the first lock."""
    done = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            wait_and_work()
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            problems.append(error)
        done.set()

    thread = threading.Thread(target=run)
    with locked(path):
        thread.start()
        assert not done.wait(_LITTLE_SECONDS)
        new = path.with_name("new-lock")
        new.write_bytes(b"")
        new.chmod(0o600)
        holder = locked(new)
        holder.__enter__()
        new.replace(path)
    try:
        # The lock on the first file is to be had now, and worth nothing.
        assert not done.wait(_LITTLE_SECONDS)
    finally:
        holder.__exit__(None, None, None)
        thread.join(PATIENCE_SECONDS)
    assert done.is_set()
    assert not problems
