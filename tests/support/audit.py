"""What Python itself tells of a call: the files that it opens, the sockets and programs that it uses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

Event = tuple[str, str]
_lists: list[list[Event]] = []


def _note(event: str, args: tuple[object, ...]) -> None:
    for events in _lists:
        events.append((event, str(args[0]) if args else ""))


@cache
def _listen() -> None:
    """Listen from now on: a hook stays for the life of the process."""
    sys.addaudithook(_note)


@contextmanager
def audited() -> Iterator[list[Event]]:
    """Yield the list to which each event of this process is added, with its first argument."""
    _listen()
    events: list[Event] = []
    _lists.append(events)
    try:
        yield events
    finally:
        _lists.remove(events)
