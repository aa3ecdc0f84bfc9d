"""What tests of explanations ask for."""

from __future__ import annotations

from support.bobs_cluster import bob

__all__ = ["bob"]
