"""A program on a real terminal of a given width, and the rows of its screen as a person sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from .plugins import PATIENCE_SECONDS

# The terminal becomes that of the session, as it is for a program that a person starts.
_CLAIM = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """The rows that a terminal shows after a text; lines that are too long continue on the next row."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[str] = [""]
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        """The rows, without spaces at their ends."""
        return [row.rstrip() for row in self._rows]

    def feed(self, text: str) -> Screen:
        """Show more text."""
        for number, letter, end, plain in _TOKEN.findall(text):
            if plain:
                self._write(plain)
            elif end == "\r":
                self._column = 0
            elif end:
                self._go_down()
            else:
                self._move(int(number or "0") if number.isdigit() or not number else 0, letter)
        return self

    def _write(self, text: str) -> None:
        for character in text:
            if self._column == self._columns:
                self._go_down()
                self._column = 0
            row = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
            self._column += 1

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")

    def _move(self, number: int, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - (number or 1))
        elif letter in "JK":
            self._rows[self._row] = self._rows[self._row][: self._column]
            if letter == "J":
                del self._rows[self._row + 1 :]
        else:
            assert letter == "m", letter  # a colour


class Session:
    """A program on a terminal; *text* is all that it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int, columns: int) -> None:
        self._process = process
        self._fd = fd
        self._columns = columns
        self.text = ""

    @property
    def rows(self) -> list[str]:
        """The rows of the screen, if the terminal has kept its width."""
        return Screen(self._columns).feed(self.text).rows

    def resize(self, columns: int) -> None:
        """Give the terminal another width; the program gets a signal, as from a real one."""
        _set_columns(self._fd, columns)

    def type(self, keys: str) -> None:
        """Press keys; the character with the number 3 is Ctrl-C."""
        os.write(self._fd, keys.encode())

    def wait_for(self, is_there: str | Callable[[str], object]) -> str:
        """Read until a text, or what a function looks for, has been shown; return everything so far."""
        shows = is_there if callable(is_there) else lambda text: is_there in text
        end = monotonic() + PATIENCE_SECONDS
        while not shows(self.text):
            assert monotonic() < end, self.text
            assert self._read(), f"it has ended: {self.text}"
        return self.text

    def finish(self) -> int:
        """Read to the end, and return the exit status."""
        while self._read():
            pass
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], PATIENCE_SECONDS)[0]:
            raise AssertionError(f"it neither writes nor ends: {self.text}")
        try:
            piece = os.read(self._fd, 65536)
        except OSError:
            return False  # the end of a terminal
        self.text += piece.decode("utf-8", "replace")
        return bool(piece)


@contextmanager
def on_screen(*words: str, columns: int = 80, rows: int = 24, **env: str) -> Iterator[Session]:
    """Run ``keyferry`` with *words* on a terminal for the length of a block."""
    ours, theirs = pty.openpty()
    _set_columns(ours, columns, rows)
    command = [sys.executable, "-I", "-c", _CLAIM, sys.executable, "-m", "keyferry", *words]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", **env},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield Session(process, ours, columns)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            os.close(ours)


def _set_columns(fd: int, columns: int, rows: int = 24) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
