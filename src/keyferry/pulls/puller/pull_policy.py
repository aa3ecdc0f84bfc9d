"""When a container's image is pulled: its ``imagePullPolicy``, and what Kubernetes makes of one that is not set."""

from keyferry.errors import ImageNameError
from keyferry.images.reference import parse_image

__all__ = ["ALWAYS", "IF_NOT_PRESENT", "NEVER", "PULL_POLICIES", "choose_pull_policy", "default_pull_policy"]

ALWAYS, IF_NOT_PRESENT, NEVER = "Always", "IfNotPresent", "Never"
PULL_POLICIES = (ALWAYS, IF_NOT_PRESENT, NEVER)
_MOVING_TAG = "latest"


def default_pull_policy(image: str) -> str:
    """What the API server fills in: Always for the tag "latest", written or not, else IfNotPresent.

    A digest without a tag is not "latest"; nor is a name that does not parse.
    """
    try:
        tag = parse_image(image).tag
    except ImageNameError:
        return IF_NOT_PRESENT
    return ALWAYS if tag == _MOVING_TAG else IF_NOT_PRESENT


def choose_pull_policy(given: str, image: str) -> str:
    """The policy that was given, or the default for *image*; raises ValueError for an unknown one."""
    if given and given not in PULL_POLICIES:
        raise ValueError(f"unknown pull policy {given!r}, expected one of {', '.join(PULL_POLICIES)}")
    return given or default_pull_policy(image)
