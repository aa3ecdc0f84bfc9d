"""Find where a container runtime goes for an image; keyferry itself sends requests to the registry only."""

from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.mirrors.containerd import containerd_mirrors, containerd_registries
from keyferry.pulls.mirrors.endpoints import Mirrors, RuntimeKind
from keyferry.pulls.mirrors.places import MirrorPlaces
from keyferry.pulls.mirrors.registries_conf import registries_conf_mirrors, registries_conf_prefixes

__all__ = ["configured_registries", "find_mirrors"]


def find_mirrors(image: str | ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where the runtime goes for *image*, or None if that is its registry alone; raise ImageNameError.

    If the runtime is not known, the files of containerd come first.
    """
    name = parse_image(image)
    found = None
    if places.reads(RuntimeKind.CONTAINERD):
        found = containerd_mirrors(name, places)
    if found is None and places.reads(RuntimeKind.CRIO):
        found = registries_conf_mirrors(name, places)
    return found


def configured_registries(places: MirrorPlaces) -> tuple[str, ...]:
    """Return the registries, or prefixes of image names, that the files of the runtime have settings for."""
    found = containerd_registries(places) if places.reads(RuntimeKind.CONTAINERD) else ()
    more = registries_conf_prefixes(places) if places.reads(RuntimeKind.CRIO) else ()
    return tuple(dict.fromkeys((*found, *more)))
