"""What tests of pods and their objects ask for."""

from __future__ import annotations

from support.bobs_cluster import bob
from support.far_node import far

__all__ = ["bob", "far"]
