"""Docker Hub's names: what its images are called by, where they are served, and what its logins are kept under."""

__all__ = ["ALIASES", "HUB", "LOGIN_HOST", "LOGIN_URL", "REGISTRY_HOST", "is_default_registry", "is_hub_host"]

# In an image's full name.
HUB = "docker.io"
# The key that the kubelet, and docker's tools in the form of a URL, keep its logins under.
LOGIN_HOST = "index.docker.io"
LOGIN_URL = f"https://{LOGIN_HOST}/v1/"
# The server that its images are pulled from.
REGISTRY_HOST = "registry-1.docker.io"
# Names that people take for it, none of which an image's full name has.
ALIASES = (LOGIN_HOST, REGISTRY_HOST, "registry.hub.docker.com", "hub.docker.com")


def is_hub_host(host: str) -> bool:
    """Tell whether *host* is Docker Hub under the name of its images, its logins or its server."""
    return host in (HUB, LOGIN_HOST, REGISTRY_HOST)


def is_default_registry(image: str) -> bool:
    """Tell whether an image counts as one of Docker Hub for the fallback key.

    The first component decides: a host has a '.' or a ':'. So ``localhost/x`` counts too, as in Kubernetes.
    """
    first, slash, _ = image.partition("/")
    if not first:
        return False
    if not slash or first in (HUB, LOGIN_HOST):
        return True
    return "." not in first and ":" not in first
