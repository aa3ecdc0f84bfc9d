"""Run a program on its own terminal, where OpenSSL prompts for pass phrases."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from time import monotonic

from .plugins import PATIENCE_SECONDS

# The terminal becomes that of the session, as it is for a program that a person starts.
_CLAIM = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
PROMPT = "Enter PEM pass phrase"


def run_on_terminal(*command: str, **env: str) -> tuple[int, str]:
    """Run *command* to its end; return its status and the output of the terminal.

    The program is killed if it prompts for a pass phrase.
    """
    ours, theirs = pty.openpty()
    claim = [sys.executable, "-I", "-c", _CLAIM, *command]
    with subprocess.Popen(
        claim,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **env},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = _read(ours)
        if PROMPT in shown:
            process.kill()
        os.close(ours)
        return process.wait(PATIENCE_SECONDS), shown


def _read(fd: int) -> str:
    shown, end = "", monotonic() + PATIENCE_SECONDS
    while PROMPT not in shown and monotonic() < end:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            shown += os.read(fd, 65536).decode("utf-8", "replace")
        except OSError:
            break  # the end of a terminal
    return shown
