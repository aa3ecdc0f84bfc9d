"""Docker Hub's names."""

from keyferry._core.docker_hub import HUB, LOGIN_HOST, LOGIN_URL, is_default_registry, is_hub_host

__all__ = ["HUB", "LOGIN_HOST", "LOGIN_URL", "is_default_registry", "is_hub_host"]
