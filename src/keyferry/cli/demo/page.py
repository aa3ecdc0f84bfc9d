"""The first step of the demo on request: the node agent on the demo's files, and its page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable

from keyferry.agent.management import AgentUnavailableError, ask_for_document, ask_for_page_link
from keyferry.cli.exits import Exit
from keyferry.errors import EnvironmentProblem
from keyferry.show.text import fold
from keyferry.show.writer import Lines, style

__all__ = ["show_page"]

_SOCKET = "agent.sock"
_PROGRAM = "keyferry"
_LOG = "agent.log"
_START_SECONDS = 20.0
_STOP_SECONDS = 15.0
_NEXT, _END = "n", "q"
# What is looked up for the page to show: an answer, the same from the cache, a failure, and keys that do not match.
_IMAGES = (
    "eu.harbour.example/team/app:v1",
    "eu.harbour.example/team/app:v1",
    "pier.example/app",
    "eu.wharf.example/team/app",
)


def show_page(run_command: Callable[[str, tuple[Exit, ...]], bool]) -> tuple[bool, bool]:
    """Run the agent in the current folder until the user ends it.

    Return whether the lookups went as expected, and whether the user wants to see the rest of the demo.
    """
    print(Lines("\n" + style("# The node agent on these files, and its page", "cyan")))
    with open(_LOG, "wb") as log:
        agent = subprocess.Popen(_command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _wait(agent)
        expected = (Exit.OK, Exit.NO, Exit.PLUGIN)
        where = f"--config providers.yaml --bin-dir bin -f app.yaml --agent {shlex.quote(_socket())}"
        results = [run_command(f"get {image} {where}", expected) for image in _IMAGES]
        while (choice := _show_link()) not in (_NEXT, _END):
            pass
    finally:
        _stop(agent)
    return all(results), choice == _NEXT


def _socket() -> str:
    return os.path.abspath(_SOCKET)


def _command() -> list[str]:
    places = ["--socket", _socket(), "--config", "providers.yaml", "--bin-dir", "bin"]
    run = [sys.executable, "-P", "-m", "keyferry", "agent", "run"]
    return [*run, *places, "--page", "127.0.0.1:0"]


def _wait(agent: subprocess.Popen[bytes]) -> None:
    """Return when the agent answers; raise EnvironmentProblem with the end of its log if it does not."""
    end = time.monotonic() + _START_SECONDS
    while agent.poll() is None and time.monotonic() < end:
        try:
            ask_for_document(_socket(), "GET", "/v1/status")
        except AgentUnavailableError:
            time.sleep(0.05)
        else:
            return
    with open(_LOG, encoding="utf-8", errors="replace") as log:
        lines = log.read().strip().splitlines()
    why = lines[-1].removeprefix(f"{_PROGRAM}: ") if lines else "it says nothing"
    raise EnvironmentProblem(f"the agent does not start: {why}")


def _show_link() -> str:
    """Print a link to the page, and return the first letter of what the user types."""
    url, _ = ask_for_page_link(_socket())
    text = "The link works once, within a minute, in a browser of this machine."
    print(Lines(f"\n{url}\n" + "\n".join(fold(text))))
    choices = f"Enter: another link, {_NEXT}: the problems, {_END}: end "
    try:
        # Inside: who sees the choices may choose at once.
        print(Lines(style(choices, "dim")), end="", flush=True)
        line = "" if sys.stdin is None else sys.stdin.readline()
    except KeyboardInterrupt:
        print()
        return _END
    if not line:  # where nobody can type, the demo goes on
        return _END if sys.stdin is not None and sys.stdin.isatty() else _NEXT
    return line.strip()[:1].lower()


def _stop(agent: subprocess.Popen[bytes]) -> None:
    agent.terminate()
    try:
        agent.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()
