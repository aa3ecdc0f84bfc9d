"""What every test may ask for."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from support.plugins import Node

# Tests that run in the background ignore interrupts and hang-ups, and so would every program they start.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# No example is too slow on a busy machine; and where a change is judged, it is judged on the same examples.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An empty node: a folder for plugins and their config."""
    return Node(tmp_path)
