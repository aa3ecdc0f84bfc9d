"""Notes and errors on standard error, one per line, each after the name of the program."""

from __future__ import annotations

import sys

from keyferry._core.secrets import printable
from keyferry.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["report", "report_error"]


def report(*lines: object) -> None:
    """Write each of *lines* to standard error."""
    for line in lines:
        print(f"keyferry: {printable(str(line))}", file=sys.stderr)


def report_error(error: Exception, edit: Callable[[str], str] = str) -> None:
    """Write an error to standard error: one line for each problem of a ConfigError, one line for any other."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    report(*(edit(str(line)) for line in problems or (str(error) or type(error).__name__,)))
