"""Why a program that exists cannot be started."""

from __future__ import annotations

import os

from keyferry._core.gotext import go_strerror

__all__ = ["describe_start_problem", "missing_interpreter"]

# What Linux reads of a script to find its interpreter.
_HEAD_BYTES = 256


def describe_start_problem(path: str, error: OSError | ValueError) -> str:
    """Return why the existing program *path* failed to start with *error*, with its interpreter if that is missing."""
    if not isinstance(error, FileNotFoundError):
        return f"cannot be started: {go_strerror(error)}"
    interpreter = _interpreter(path)
    if not interpreter:
        return "needs a program loader that does not exist on this machine"
    why = "; its lines end with CR LF, expected LF" if interpreter.endswith("\r") else ""
    return f"names the interpreter {interpreter!r} in its first line, which does not exist{why}"


def missing_interpreter(path: str) -> str:
    """Return the interpreter that the script *path* names and that does not exist; empty if there is none."""
    interpreter = _interpreter(path)
    return "" if os.path.exists(interpreter) else interpreter


def _interpreter(path: str) -> str:
    """Return the interpreter in the first line of a script, with the CR of a line that ends with CR LF."""
    head = _read_head(path)
    if not head.startswith(b"#!"):
        return ""
    line = head[2:].partition(b"\n")[0].strip(b" \t")
    return os.fsdecode(line.replace(b"\t", b" ").partition(b" ")[0])


def _read_head(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""
