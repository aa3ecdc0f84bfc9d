"""What to install where a package is missing that only some plugins need."""

from keyferry._core.extras import install_hint

__all__ = ["install_hint"]
