"""How severe a finding is."""

from keyferry._core.word_enum import WordEnum

__all__ = ["SEVERITIES", "Severity"]


class Severity(WordEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


# The most severe first.
SEVERITIES = tuple(Severity)
