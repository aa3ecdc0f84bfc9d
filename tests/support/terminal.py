"""Run a program on its own terminal, of a given width, and read what a person would see there."""

from __future__ import annotations

import contextlib
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
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Self

from keyferry.cli.main import main

from .commands import call_on_streams
from .plugins import PATIENCE_SECONDS

# The terminal becomes that of the session, as it is for a program that a person starts.
_CLAIM = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_LINES = 50
PROMPT = "Enter PEM pass phrase"
# Variables of whoever runs the tests that would change what is shown.
_UNSET = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")


class Shown(NamedTuple):
    """The end of a program on a terminal: its status and everything that it wrote, as it was written."""

    status: int
    raw: str

    @property
    def screen(self) -> str:
        """What is left on the screen at the end, without colours."""
        return screen(self.raw)


class Terminal:
    """A program that runs on a terminal of its own; a context manager, which kills a program that is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        _set_size(theirs, columns)
        inherited = {name: value for name, value in os.environ.items() if name not in _UNSET}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CLAIM, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**inherited, "TERM": "xterm", **(env or {})},
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        os.close(self._ours)

    def read_until(self, text: str) -> str:
        """Read until *text* was written, or to the end; return everything that was written so far."""
        end = monotonic() + PATIENCE_SECONDS
        while text not in self.raw and monotonic() < end:
            if not self._read():
                break
        return self.raw

    def type(self, text: str) -> None:
        """Send *text* as if it was typed; the character with the code 3 is Ctrl-C."""
        os.write(self._ours, text.encode())

    def resize(self, columns: int) -> None:
        """Change the width of the terminal, and let the program know."""
        _set_size(self._ours, columns)

    def finish(self) -> Shown:
        """Read to the end of the program."""
        end = monotonic() + 3 * PATIENCE_SECONDS
        while monotonic() < end and self._read():
            pass
        return Shown(self._process.wait(PATIENCE_SECONDS), self.raw)

    def kill(self) -> Shown:
        """Kill the program, and return what it wrote."""
        self._process.kill()
        return Shown(self._process.wait(PATIENCE_SECONDS), self.raw)

    def _read(self) -> bool:
        """Read what is there within a second; return whether the terminal is still open."""
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            self.raw += os.read(self._ours, 65536).decode("utf-8", "replace")
        except OSError:
            return False  # the end of a terminal
        return True


def run_on_terminal(*command: str, **env: str) -> tuple[int, str]:
    """Run *command* to its end; return its status and the output of the terminal.

    The program is killed if it prompts for a pass phrase.
    """
    with Terminal(command, env=env) as terminal:
        shown = terminal.kill() if PROMPT in terminal.read_until(PROMPT) else terminal.finish()
        return shown.status, shown.raw


def keyferry_on_terminal(*words: str, columns: int = 80, cwd: Path | None = None, **env: str) -> Shown:
    """Run a command of keyferry to its end on a terminal of that width."""
    with Terminal((sys.executable, "-m", "keyferry", *words), columns=columns, cwd=cwd, env=env) as terminal:
        return terminal.finish()


def show_in_process(*words: str, columns: int = 80, cwd: Path | None = None, **env: str) -> Shown:
    """Do the same as ``keyferry_on_terminal`` in this process, which takes milliseconds."""
    ours, theirs = pty.openpty()
    _set_size(theirs, columns)
    written = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # the end of a terminal
            while data := os.read(ours, 65536):
                written.extend(data)

    reader = threading.Thread(target=read)
    with open(theirs, "r+b", buffering=0) as terminal:
        reader.start()
        status = call_on_streams(
            lambda: main(words),
            [sys.executable, *words],
            (terminal, terminal, terminal),
            cwd=cwd,
            env={**dict.fromkeys(_UNSET, ""), "TERM": "xterm", **env},
        )
    reader.join()
    os.close(ours)
    return Shown(status, written.decode("utf-8", "replace"))


def screen(raw: str) -> str:
    """Return what a terminal shows after *raw*, without colours: carriage returns and cleared lines are obeyed."""
    return "\n".join(_line(line) for line in _STYLE.sub("", raw).replace("\r\n", "\n").split("\n"))


def _line(text: str) -> str:
    shown: list[str] = []
    at = 0
    for piece in re.split(r"(\r|\x1b\[K)", text):
        if piece == "\r":
            at = 0
        elif piece == "\x1b[K":
            del shown[at:]
        else:
            shown[at : at + len(piece)] = piece
            at += len(piece)
    return "".join(shown).rstrip()


def _set_size(fd: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
