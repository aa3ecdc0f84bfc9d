"""Google's image registries: which hosts are theirs, and the keys a token for them is given under."""

from keyferry.sdk import ProvideError

__all__ = ["GOOGLE_PATTERNS", "check_google_registry", "find_google_registry", "is_google_host"]

# Every host of Google's, as the kubelet matches them: label by label.
GOOGLE_PATTERNS = (
    "container.cloud.google.com",
    "gcr.io",
    "*.gcr.io",
    "*.pkg.dev",
    "docker.*.rep.pkg.dev",
    "docker.*.goog",
)
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def is_google_host(host: str) -> bool:
    """Tell whether a registry's host, without its port, is one that Google runs."""
    labels = host.lower().split(".")
    return any(_covers(pattern.split("."), labels) for pattern in GOOGLE_PATTERNS)


def _covers(pattern: list[str], labels: list[str]) -> bool:
    if len(pattern) != len(labels):
        return False
    return all(
        _is_label(found) if wanted == "*" else found == wanted
        for wanted, found in zip(pattern, labels, strict=True)
    )


def _is_label(text: str) -> bool:
    return bool(text) and _LABEL.issuperset(text)


def find_google_registry(image: str) -> str:
    """The registry of an image, port included, if Google runs it; nothing for any other."""
    registry, slash, _ = image.partition("/")
    host, colon, port = registry.partition(":")
    return registry if slash and is_google_host(host) and (not colon or port == "443") else ""


def check_google_registry(image: str) -> str:
    """The registry of an image, port included, if Google runs it; raises ProvideError for any other.

    A token opens all that its account may read and write, so it is never offered to a registry of somebody else.
    """
    registry = find_google_registry(image)
    if registry:
        return registry
    raise ProvideError(
        f"image {image[:200]!r} is not in a registry of Google's; no token was asked for",
        f"in the kubelet's config, let matchImages of this provider be among {', '.join(GOOGLE_PATTERNS)}",
    )
