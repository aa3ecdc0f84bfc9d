"""Frozen values whose classes are cheap to define; type checkers treat them as frozen dataclasses."""

from keyferry._core.values import Value, field, replace

__all__ = ["Value", "field", "replace"]
