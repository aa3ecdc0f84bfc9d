"""Frozen values whose classes cost next to nothing to define; to a type checker they are frozen dataclasses."""

from keyferry._core.values import Value, field, replace

__all__ = ["Value", "field", "replace"]
