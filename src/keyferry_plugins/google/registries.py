"""Google's image registries: their hosts, and the keys of a token for them."""

from __future__ import annotations

from keyferry.sdk import ProvideError

__all__ = ["GOOGLE_PATTERNS", "check_google_registry", "find_google_registry", "is_google_host"]

# All hosts of Google's registries, as patterns that the kubelet matches label by label.
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
    """Return whether Google runs the registry at *host*, which has no port."""
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
    """Return an image's registry, with its port, if Google runs it; an empty string otherwise."""
    registry, slash, _ = image.partition("/")
    host, colon, port = registry.partition(":")
    return registry if slash and is_google_host(host) and (not colon or port == "443") else ""


def check_google_registry(image: str) -> str:
    """Return an image's registry, with its port, if Google runs it; raise ProvideError otherwise.

    A token gives access to everything its account can read and write, so no other registry may receive it.
    """
    registry = find_google_registry(image)
    if registry:
        return registry
    raise ProvideError(
        f"image {image[:200]!r} is not in a Google registry; no token was requested",
        f"in the kubelet's config, limit matchImages of this provider to {', '.join(GOOGLE_PATTERNS)}",
    )
