"""How severe a finding is."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


# The most severe first.
SEVERITIES = tuple(Severity)


def is_failure(severity: Severity, *, strict: bool) -> bool:
    """Return whether a finding makes a check fail: errors and warnings do, infos only if *strict*."""
    return strict or severity is not Severity.INFO
