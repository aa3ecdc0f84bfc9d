"""Frozen values whose classes are cheap to define; type checkers treat them as frozen dataclasses."""

from __future__ import annotations

from keyferry._core.values import Value, field, replace

__all__ = ["Value", "field", "replace"]
