"""The ``imagePullPolicy`` of a container, and its default in Kubernetes."""

from __future__ import annotations

from keyferry.images.reference import ImageName

__all__ = ["ALWAYS", "IF_NOT_PRESENT", "NEVER", "PULL_POLICIES", "choose_pull_policy", "default_pull_policy"]

ALWAYS, IF_NOT_PRESENT, NEVER = "Always", "IfNotPresent", "Never"
PULL_POLICIES = (ALWAYS, IF_NOT_PRESENT, NEVER)
_MOVING_TAG = "latest"


def default_pull_policy(image: ImageName | None) -> str:
    """Return the API server's default: Always if the tag is "latest" or missing, else IfNotPresent.

    For a digest without a tag, and for None, a name that does not parse, it is IfNotPresent.
    """
    return ALWAYS if image is not None and image.tag == _MOVING_TAG else IF_NOT_PRESENT


def choose_pull_policy(given: str, image: ImageName | None) -> str:
    """Return the given policy, or the default for *image*; raise ValueError for an unknown policy."""
    if given and given not in PULL_POLICIES:
        raise ValueError(f"unknown pull policy {given!r}, expected one of {', '.join(PULL_POLICIES)}")
    return given or default_pull_policy(image)
