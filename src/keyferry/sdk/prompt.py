"""Ask the person at the terminal, where the client lets a plugin do that."""

import os
import sys

from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from keyferry.sdk.cluster import ExecRequest

__all__ = ["ask", "is_watched", "tell"]

# A terminal takes 4095 bytes of a line and drops the rest without a word.
_LONGEST_ANSWER = 4094


def ask(request: "ExecRequest", question: str, *, is_secret: bool = False) -> str:
    """The line that the user types in answer to *question*; what *is_secret* is not shown while it is typed.

    Raises ProvideError where nobody can be asked: the exec entry's interactiveMode is Never, or the client's
    standard input is no terminal.
    """
    if not request.interactive:
        raise ProvideError(
            f"{question.rstrip(': ?')} is needed, and the user cannot be asked",
            "run it from a terminal, with interactiveMode IfAvailable or Always in the kubeconfig's exec entry",
        )
    tell(question, end="")
    return _read_hidden() if is_secret else _read_line()


def tell(text: str, end: str = "\n") -> None:
    """Show something to the user, on standard error: standard output is the answer's. Without one, nobody sees it."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text + end)
            sys.stderr.flush()
    except (OSError, ValueError):
        pass


def is_watched(request: "ExecRequest") -> bool:
    """Tell whether somebody may read what a plugin says: the client says so, or standard error is a terminal."""
    try:
        return request.interactive or os.isatty(2)
    except OSError:
        return False


def _read_line() -> str:
    typed = bytearray()
    # Byte by byte: what follows the line is for the next question.
    while (byte := _read_byte()) not in (b"", b"\n"):
        typed += byte
        if len(typed) > _LONGEST_ANSWER:
            raise ProvideError(f"the answer typed is longer than {_LONGEST_ANSWER} bytes")
    if not byte and not typed:
        raise ProvideError("standard input ended before an answer was typed")
    return typed.decode("utf-8", "surrogateescape").rstrip("\r")


def _read_byte() -> bytes:
    try:
        return os.read(0, 1)
    except OSError:
        # The terminal is gone, or was never there.
        return b""


def _read_hidden() -> str:
    try:
        import termios

        before = termios.tcgetattr(0)
    except (ImportError, OSError):
        # No terminal, or a system without termios; a pipe shows nothing anyway.
        return _read_line()
    except termios.error:
        return _read_line()
    hidden = [*before]
    hidden[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, hidden)
        return _read_line()
    finally:
        try:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        except termios.error:
            # It is gone, and needs nothing any more.
            pass
        tell("")
