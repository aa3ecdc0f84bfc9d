"""The processes that this one has started and not collected."""

from __future__ import annotations

import os
from pathlib import Path


def child_states() -> dict[str, str]:
    """Return the state of each child by its process id, ``Z`` for one that has ended; nothing without ``/proc``."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_bytes().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it has ended
        if parent == b"%d" % os.getpid():
            found[path.parent.name] = state.decode()
    return found
