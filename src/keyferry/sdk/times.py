"""Durations and times in the formats of Kubernetes, as integers of nanoseconds."""

from __future__ import annotations

from keyferry.api.meta import format_duration, format_time, parse_duration, parse_time
from keyferry.errors import DurationError, TimeError

__all__ = ["DurationError", "TimeError", "format_duration", "format_time", "parse_duration", "parse_time"]
