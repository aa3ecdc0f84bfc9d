"""Findings as workflow commands of GitHub Actions, which shows them beside the lines of a change."""

from __future__ import annotations

from keyferry._core.secrets import printable
from keyferry._core.severity import Severity

__all__ = ["annotation"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def annotation(
    severity: Severity,
    title: str,
    message: str,
    *,
    file: str = "",
    line: int | None = None,
    column: int | None = None,
) -> str:
    """Return one workflow command, with everything escaped that would end a property or the command."""
    place = {"file": file, "line": line, "col": column, "title": title}
    given = ((name, str(value)) for name, value in place.items() if value not in (None, ""))
    properties = ",".join(f"{name}={_property(value)}" for name, value in given)
    return f"::{_COMMANDS[severity]} {properties}::{_data(message)}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
