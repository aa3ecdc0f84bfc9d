"""What a program writes, passed on without the characters that control a terminal."""

import os
import time

import pytest

from keyferry.invoke.relay import Relay, Tail


def relayed(*chunks: bytes) -> bytes:
    """Return what arrives if a program writes these chunks."""
    reader, writer = os.pipe()
    relay = Relay(writer)
    for chunk in chunks:
        os.write(relay.writer_fd, chunk)
        time.sleep(0.01)
    relay.finish()
    os.close(writer)
    with open(reader, "rb") as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ((b"one\n", b"two\tthree\n"), "one\ntwo\tthree\n"),
        ((b"a prompt: ",), "a prompt: "),
        ((b"red \x1b[31mX\x1b]0;title\x07\n",), "red \ufffd[31mX\ufffd]0;title\ufffd\n"),
        ((b"windows\r\n", b"back\rspace\x08\n"), "windows\nback\ufffdspace\ufffd\n"),
        (("ü".encode()[:1], "ü".encode()[1:]), "ü"),
        ((b"\xff\n", b"\xc3"), "\ufffd\n\ufffd"),
        (("right to left \u202e\n".encode(),), "right to left \ufffd\n"),
        ((), ""),
    ],
    ids=["lines", "a prompt", "escapes", "returns", "a split character", "not UTF-8", "bidi", "nothing"],
)
def test_text_passes_and_controls_do_not(chunks: tuple[bytes, ...], expected: str) -> None:
    """A character in two parts is one; a part of one at the end is none."""
    assert relayed(*chunks).decode() == expected


def test_a_target_that_is_closed_does_no_harm() -> None:
    """What is written to it is lost, and the program is not stopped by it."""
    reader, writer = os.pipe()
    os.close(reader)
    relay = Relay(writer)
    os.write(relay.writer_fd, b"lost")
    relay.finish()
    os.close(writer)


def test_no_descriptor_is_left() -> None:
    """Neither end of the pipe."""
    before = set(os.listdir("/dev/fd"))
    relayed(b"x")
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
