"""Why a program that exists cannot be started."""

import os

from keyferry._core.gotext import go_strerror

__all__ = ["describe_start_problem"]

# What Linux reads of a script to find its interpreter.
_HEAD_BYTES = 256


def describe_start_problem(path: str, error: OSError | ValueError) -> str:
    """Return why the existing program *path* failed to start with *error*, with its interpreter if that is missing."""
    if not isinstance(error, FileNotFoundError):
        return f"cannot be started: {go_strerror(error)}"
    head = _read_head(path)
    if not head.startswith(b"#!"):
        return "needs a program loader that does not exist on this machine"
    line = head[2:].partition(b"\n")[0].strip(b" \t")
    interpreter = os.fsdecode(line.replace(b"\t", b" ").partition(b" ")[0])
    why = "; its lines end with CR LF, expected LF" if interpreter.endswith("\r") else ""
    return f"names the interpreter {interpreter!r} in its first line, which does not exist{why}"


def _read_head(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""
