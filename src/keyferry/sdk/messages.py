"""What a plugin says to its user and asks of them: messages without secrets, prompts, and the steps of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from keyferry._core.secrets import printable, redact
from keyferry.api.link_line import VARIABLE, LinkLine, encode_link
from keyferry.errors import ProvideError
from keyferry.sdk.cluster import ExecRequest

_MAX_CHARACTERS = 1 << 16
_MAX_LINK_TEXT, _MAX_LINK_FACT = 480, 280
# A terminal takes 4095 bytes of a line and silently drops the rest.
_MAX_ANSWER = 4094


def shown(text: object, most: int = 300, known: tuple[str, ...] = ()) -> str:
    """Return *text* on one line, cut at *most*, with *known* secrets and everything that looks like one masked."""
    whole = str(text)
    if len(whole) > _MAX_CHARACTERS:
        # The last word may be half of a secret, which is not recognised.
        whole = whole[:_MAX_CHARACTERS].rpartition(" ")[0]
    clean = printable(" ".join(redact(whole, known).split()))
    return clean if len(clean) <= most else clean[:most] + "..."


def ask(request: ExecRequest, question: str, *, is_secret: bool = False) -> str:
    """Return the line that the user types after *question*; if it *is_secret*, it is not echoed.

    Raises ProvideError if the user cannot be prompted: the exec entry's interactiveMode is Never, or the client's
    standard input is not a terminal.
    """
    if not request.interactive:
        raise ProvideError(
            f"{question.rstrip(': ?')} is needed, and the user cannot be asked",
            "run it from a terminal, with interactiveMode IfAvailable or Always in the kubeconfig's exec entry",
        )
    tell(question, end="")
    return _read_hidden() if is_secret else _read_line()


def tell(text: str, end: str = "\n") -> None:
    """Show *text* to the user on standard error, since standard output is for the response; ignore errors."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text + end)
            sys.stderr.flush()
    except (OSError, ValueError):
        pass


def is_watched(request: ExecRequest) -> bool:
    """Return whether somebody may read messages: the request is interactive, or standard error is a terminal."""
    try:
        return request.interactive or os.isatty(2)
    except OSError:
        return False


def _read_line() -> str:
    typed = bytearray()
    # Byte by byte: the input after the line is for the next question.
    while (byte := _read_byte()) not in (b"", b"\n"):
        typed += byte
        if len(typed) > _MAX_ANSWER:
            raise ProvideError(f"the answer typed is longer than {_MAX_ANSWER} bytes")
    if not byte and not typed:
        raise ProvideError("standard input ended before an answer was typed")
    return typed.decode("utf-8", "surrogateescape").rstrip("\r")


def _read_byte() -> bytes:
    try:
        return os.read(0, 1)
    except OSError:
        # The terminal is closed, or there is none.
        return b""


def _read_hidden() -> str:
    try:
        import termios

        before = termios.tcgetattr(0)
    except (ImportError, OSError):
        # No terminal, or a system without termios. A pipe echoes nothing.
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
            # The terminal is closed.
            pass
        tell("")


def are_links_wanted(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the program that runs this plugin, ``keyferry plugin try``, shows its steps."""
    return (os.environ if environ is None else environ).get(VARIABLE) == "1"


def report_link(
    name: str,
    state: str,
    text: str,
    *,
    facts: Mapping[str, object] | None = None,
    cure: str = "",
    known: tuple[str, ...] = (),
) -> None:
    """Write the line of one step on standard error: *state* is ok, broken or unknown.

    Secrets in *known*, and everything that looks like one, are masked.
    """
    shown_facts = {key: _shown_fact(value, known) for key, value in (facts or {}).items()}
    link = LinkLine(
        name=name,
        state=state,
        text=shown(text, _MAX_LINK_TEXT, known),
        facts=shown_facts,
        cure=shown(cure, _MAX_LINK_TEXT, known),
    )
    tell(encode_link(link))


def _shown_fact(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, list | tuple):
        return [shown(each, _MAX_LINK_FACT, known) for each in value]
    return value if isinstance(value, int | float) else shown(value, _MAX_LINK_FACT, known)
