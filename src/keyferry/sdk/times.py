"""Durations and times as Kubernetes writes them, as integers of nanoseconds."""

from keyferry.api.meta import format_duration, format_time, parse_duration, parse_time

__all__ = ["format_duration", "format_time", "parse_duration", "parse_time"]
