"""Docker Hub's names in image references, as a registry and as the key of its logins; the mark of an identity token."""

from __future__ import annotations

# The host in a fully qualified image reference.
HUB = "docker.io"
# The key of its logins, for the kubelet.
LOGIN_HOST = "index.docker.io"
# The same for Docker's tools.
LOGIN_URL = f"https://{LOGIN_HOST}/v1/"
# The host that serves its images.
REGISTRY_HOST = "registry-1.docker.io"
# Other names of Docker Hub. No fully qualified image reference has one of them as its host.
ALIASES = (LOGIN_HOST, REGISTRY_HOST, "registry.hub.docker.com", "hub.docker.com")
# The user name by which Docker's credential helpers mark a secret as an identity token, not a password.
IDENTITY_TOKEN = "<token>"  # noqa: S105 - a user name


def is_hub_host(host: str) -> bool:
    """Return whether *host* is one of Docker Hub's names: of its images, its logins or its server."""
    return host in (HUB, LOGIN_HOST, REGISTRY_HOST)


def is_default_registry(image: str) -> bool:
    """Return whether the fallback key of Docker Hub applies to *image*.

    The first component is a host if it has a '.' or a ':'. So the key also applies to ``localhost/x``, as in
    Kubernetes.
    """
    first, slash, _ = image.partition("/")
    if not first:
        return False
    if not slash or first in (HUB, LOGIN_HOST):
        return True
    return "." not in first and ":" not in first
