"""Find where a container runtime goes for an image, and how it connects there."""

from __future__ import annotations

from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.mirrors.containerd import containerd_endpoints, containerd_registries
from keyferry.pulls.mirrors.endpoints import MirrorPlaces, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.registries_conf import registries_conf_endpoints, registries_conf_prefixes


def find_mirrors(image: str | ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where the runtime goes for *image*, or None if that is its registry alone; raise ImageNameError.

    If the runtime is not known, the files of containerd come first.
    """
    name = parse_image(image)
    found = find_endpoints(name, places)
    return None if found is None or found.is_registry_alone(name.path) else found


def find_endpoints(image: str | ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return the same, also where that is the registry alone and a file tells how the runtime connects to it."""
    name = parse_image(image)
    first = containerd_endpoints(name, places) if places.reads(RuntimeKind.CONTAINERD) else None
    if first is not None and not first.is_registry_alone(name.path):
        return first
    second = registries_conf_endpoints(name, places) if places.reads(RuntimeKind.CRIO) else None
    if first is None or (second is not None and not second.is_registry_alone(name.path)):
        return second
    return first


def configured_registries(places: MirrorPlaces) -> tuple[str, ...]:
    """Return the registries, or prefixes of image names, that the files of the runtime have settings for."""
    found = containerd_registries(places) if places.reads(RuntimeKind.CONTAINERD) else ()
    more = registries_conf_prefixes(places) if places.reads(RuntimeKind.CRIO) else ()
    return tuple(dict.fromkeys((*found, *more)))
