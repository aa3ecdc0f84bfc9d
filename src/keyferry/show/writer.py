"""The writer for all terminal output, its colours, notes on standard error, and lines that are redrawn in place."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from keyferry._core.secrets import printable
from keyferry.errors import ConfigError, EnvironmentProblem
from keyferry.show.folding import fold_sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

# What each line on standard error begins with.
PREFIX = "keyferry: "
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
RESET = "\033[0m"
# How each line of ours on standard error begins.
REPORTED = "keyferry: "
_CLEAR = "\r\033[K"
_CLEAR_SCREEN = "\033[H\033[J"
# The movements of a text that is redrawn in place: to the line's start, up, and the two that erase.
_MOVES = r"\r|\033\[[0-9]*[AJK]"
# The columns and rows of a terminal whose size is not known.
_DEFAULT_SIZE = 80, 24


class ColorChoice(StrEnum):
    """The values of ``--color``."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Lines(str):
    """Text with line breaks and tabs of keyferry's own: a table, a document, help.

    Text from elsewhere in it is on one line already. In all other output, a line break in the middle is not keyferry's
    own, and is replaced.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self


def join_lines(lines: Iterable[str]) -> Lines:
    """Return all *lines* below each other, made harmless one by one; those that are Lines stay as they are."""
    return Lines("\n".join(line if isinstance(line, Lines) else printable(line) for line in lines))


class Drawn(Lines):
    """Lines that are redrawn in place; keyferry's own movements of the cursor stay. For standard error only.

    Text from elsewhere in it has passed ``printable`` already.
    """

    __slots__ = ()


class Output:
    """Standard output or standard error without control characters that could harm a terminal.

    If standard output cannot be written, that is an error, and later output is dropped. Errors of standard error are
    ignored, because they cannot be reported.
    """

    def __init__(self, stream: TextIO | None, *, is_talk: bool = False) -> None:
        self._stream = stream
        self._is_talk = is_talk
        self._is_lost = stream is None and is_talk
        self.color = ColorChoice.AUTO

    @property
    def encoding(self) -> str:
        """The encoding of the stream."""
        return (self._stream.encoding if self._stream is not None else "") or "utf-8"

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        """Write *text* without harmful characters: one line, or Lines."""
        shown = _drawn_anew(text) if self._is_talk else _coloured(text)
        if self.encoding.lower() not in ("utf-8", "utf8"):
            shown = shown.encode(self.encoding, "backslashreplace").decode(self.encoding)
        self._try(lambda stream: stream.write(shown))
        return len(text)

    def write_exact(self, data: bytes) -> None:
        """Write bytes unchanged, for programs; for a terminal harmful characters are replaced."""
        if self.isatty():
            self.write(Lines(data.decode("utf-8", "replace")))
            return
        self.flush()
        self._try(lambda stream: stream.buffer.write(data))

    def clear_screen(self) -> None:
        """Clear a terminal, for output that replaces what is shown; elsewhere do nothing."""
        if self.isatty():
            self._try(lambda stream: stream.write(_CLEAR_SCREEN))

    def flush(self) -> None:
        """Flush the stream; a closed stream is ignored."""
        if self._stream is not None:
            self._try(lambda stream: stream.flush())

    def _try(self, do: Callable[[TextIO], object]) -> None:
        if self._is_lost:
            return
        try:
            if self._stream is None:
                raise OSError(0, "it is closed")
            do(self._stream)
        except OSError as error:
            self._lose()
            problem = error
        else:
            return
        if self._is_talk:
            return
        if isinstance(problem, BrokenPipeError):
            raise problem
        raise EnvironmentProblem(f"standard output cannot be written: {problem.strerror}")

    def _lose(self) -> None:
        """Drop all further output, and buffered output, about which the interpreter would complain at exit."""
        self._is_lost = True
        try:
            descriptor = self._stream.fileno() if self._stream is not None else -1
        except (OSError, ValueError):
            return
        if descriptor >= 0:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _harmless(text: str, keep: str = "") -> str:
    """Replace control characters; only a line break at the end, those of Lines, and matches of *keep* stay."""
    kept = "\t\n" if isinstance(text, Lines) else ""
    body, end = text.removesuffix("\n"), "\n" if text.endswith("\n") else ""
    if not keep:
        return printable(body, kept) + end
    parts = re.split(f"({keep})", body)
    return "".join(part if at % 2 else printable(part, kept) for at, part in enumerate(parts)) + end


def _drawn_anew(text: str) -> str:
    """Return harmless text; the carriage returns of a line that is redrawn, and so starts with one, stay."""
    if isinstance(text, Drawn):
        return _harmless(text, _MOVES)
    if not text.startswith("\r"):
        return _harmless(text)
    end = next((mark for mark in (_CLEAR, "\r") if text.endswith(mark, 1)), "")
    return "\r" + _harmless(text[1 : len(text) - len(end)]) + end


def _coloured(text: str) -> str:
    """Return harmless text; keyferry's own colours stay if standard output takes colours."""
    if "\033" not in text or not is_coloured():
        return _harmless(text)
    own = "|".join(_STYLES.values())
    return _harmless(text, rf"\033\[(?:0|(?:{own})(?:;(?:{own}))*)m")


class Guard:
    """Sends all output through an Output for the duration of a ``with`` block."""

    def __enter__(self) -> None:
        self._before = sys.stdout, sys.stderr
        if not isinstance(sys.stdout, Output):
            sys.stdout = Output(sys.stdout)
            sys.stderr = Output(sys.stderr, is_talk=True)

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._before


def hold_descriptors() -> None:
    """Open standard descriptors that are closed: otherwise the next opened file would become one of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def write_exact(data: bytes) -> None:
    """Write bytes to standard output unchanged, unless it is a terminal; see Output."""
    with Guard():
        output = sys.stdout
        assert isinstance(output, Output)  # noqa: S101 - Guard sets it
        output.write_exact(data)
        output.flush()


def choose_color(choice: ColorChoice) -> None:
    """Set whether standard output takes colours, until the end of the Guard."""
    if isinstance(sys.stdout, Output):
        sys.stdout.color = choice


def is_coloured() -> bool:
    """Return whether standard output takes colours.

    The choice of ``--color`` decides, else NO_COLOR, else FORCE_COLOR, else whether it is a terminal with colours.
    """
    if isinstance(sys.stdout, Output) and sys.stdout.color is not ColorChoice.AUTO:
        return sys.stdout.color is ColorChoice.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def style(text: str, *names: str, coloured: bool | None = None) -> str:
    """Return *text* in the given styles, if standard output takes colours."""
    if not names or not (is_coloured() if coloured is None else coloured):
        return text
    return f"\033[{';'.join(_STYLES[name] for name in names)}m{text}{RESET}"


def report(*lines: object) -> None:
    """Write each of *lines* to standard error; on a terminal folded between words, and not inside of a command."""
    columns = _talk_columns()
    for line in lines:
        text = printable(str(line))
        if columns and len(PREFIX) + len(text) > columns:
            print(*fold_sentence(text, PREFIX, " " * len(PREFIX), columns), sep="\n", file=sys.stderr)
        else:
            print(f"{PREFIX}{text}", file=sys.stderr)


def _talk_columns() -> int:
    """Return the columns of the terminal that standard error is; 0 if it is none."""
    return terminal_size()[0] if sys.stderr.isatty() else 0


def report_error(error: Exception, edit: Callable[[str], str] = str) -> None:
    """Write an error to standard error: one line for each problem of a ConfigError, one line for any other."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    report(*(edit(str(line)) for line in problems or (str(error) or type(error).__name__,)))


def terminal_size() -> tuple[int, int]:
    """Return the columns and rows of the terminal of standard error."""
    try:
        columns, rows = os.get_terminal_size(2)
    except OSError:
        return _DEFAULT_SIZE
    # A terminal whose size nobody has set has none.
    return columns or _DEFAULT_SIZE[0], rows or _DEFAULT_SIZE[1]


class LiveLines:
    """Lines that ``draw`` replaces by new ones. One thread at a time may use them."""

    def __init__(
        self, stream: TextIO | None = None, size: Callable[[], tuple[int, int]] = terminal_size
    ) -> None:
        self._stream = stream or sys.stderr
        self._size = size
        self._shown: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """The number of characters that a line may have now; the last column stays empty."""
        return max(1, self._size()[0] - 1)

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines* in the place of those that are shown; what is too long or too much is cut."""
        columns, rows = self._size()
        shown = tuple(printable(line)[: max(1, columns - 1)] for line in lines[: max(1, rows - 1)])
        if shown == self._shown:
            return
        text = "\n".join(f"{line}\033[K" for line in shown)
        self._write(f"{self._back(columns)}{text}\033[J")
        self._shown = shown

    def clear(self) -> None:
        """Take the lines away."""
        if self._shown:
            self._write(f"{self._back(self._size()[0])}\033[J")
            self._shown = ()

    def say(self, text: str) -> None:
        """Print a line that stays, above the others."""
        shown = self._shown
        self.clear()
        print(printable(text), file=self._stream, flush=True)
        self.draw(shown)

    def _back(self, columns: int) -> str:
        """Return the movement to the first line; in a terminal that became narrower, a line takes several rows."""
        rows = sum(max(1, -(-len(line) // columns)) for line in self._shown)
        return f"\r\033[{rows - 1}A" if rows > 1 else "\r"

    def _write(self, text: str) -> None:
        self._stream.write(Drawn(text))
        self._stream.flush()
