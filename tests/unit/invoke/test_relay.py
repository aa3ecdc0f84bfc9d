"""What a program writes, of which the end is kept."""

from __future__ import annotations

import os

from keyferry.invoke.relay import Relay, Tail


def test_no_descriptor_is_left() -> None:
    """Neither end of the pipe."""
    before = set(os.listdir("/dev/fd"))
    relay = Relay(Tail())
    os.write(relay.writer_fd, b"x")
    relay.finish()
    assert set(os.listdir("/dev/fd")) == before


def test_a_tail_keeps_the_end_as_it_is() -> None:
    """Nothing is replaced, so that secrets can be masked first; a line that was cut is dropped."""
    tail = Tail()
    relay = Relay(tail)
    os.write(relay.writer_fd, b"red \x1b[31m\n")
    relay.finish()
    assert tail.whole_lines == b"red \x1b[31m\n"
    for _ in range(40):
        tail.add(b"x" * 9999 + b"\n")
    assert set(tail.whole_lines.splitlines()) == {b"x" * 9999}
    assert 0 < len(tail.whole_lines) <= 64 * 1024
    tail.clear()
    assert tail.whole_lines == b""
