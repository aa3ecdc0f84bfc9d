"""Docker Hub's names, and the user name that marks an identity token."""

from __future__ import annotations

from keyferry._core.docker_hub import (
    HUB,
    IDENTITY_TOKEN,
    LOGIN_HOST,
    LOGIN_URL,
    is_default_registry,
    is_hub_host,
)

__all__ = ["HUB", "IDENTITY_TOKEN", "LOGIN_HOST", "LOGIN_URL", "is_default_registry", "is_hub_host"]
