"""Errors of documents, durations and times that cannot be parsed: the only errors that every plugin imports."""

from __future__ import annotations

from keyferry.errors.kinds import KeyferryError, Kind, TextError

__all__ = ["DocumentError", "DurationError", "TimeError"]


class DocumentError(KeyferryError):
    """Text that is not valid JSON or YAML; ``kind`` is ``JSON_SYNTAX``, ``YAML_SYNTAX`` or ``OTHER``."""

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        kubernetes_text: str = "",
        kind: Kind = Kind.YAML_SYNTAX,
    ) -> None:
        super().__init__(message, line, column, kubernetes_text, kind)
        self.message = message
        self.line = line
        self.column = column
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return where + self.message


class DurationError(TextError):
    """Text that is not a duration in Go's syntax."""

    kind = Kind.DURATION


class TimeError(TextError):
    """Text that Kubernetes does not accept as an RFC 3339 time."""

    kind = Kind.TIME
