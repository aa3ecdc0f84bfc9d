"""What is said on standard error: notes and errors, each on a line with our name before it."""

import sys

from keyferry._core.secrets import printable
from keyferry.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["report", "report_error"]


def report(*lines: object) -> None:
    """Say something: one line for each."""
    for line in lines:
        print(f"keyferry: {printable(str(line))}", file=sys.stderr)


def report_error(error: Exception, edit: "Callable[[str], str]" = str) -> None:
    """Say what went wrong: a line for each problem of a config, and one for anything else."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    report(*(edit(str(line)) for line in problems or (str(error) or type(error).__name__,)))
