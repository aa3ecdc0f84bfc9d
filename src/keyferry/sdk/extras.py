"""Installation hints for the optional packages that some plugins need."""

from __future__ import annotations

from keyferry._core.extras import install_hint

__all__ = ["install_hint"]
