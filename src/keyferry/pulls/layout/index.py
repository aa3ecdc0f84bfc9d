"""The index of an OCI image layout, as a document: which images it has, under which names. Pure functions."""

from keyferry._core.json import loads
from keyferry._core.values import Value
from keyferry.errors import DocumentError
from keyferry.pulls.platform import Platform

__all__ = ["IndexEntry", "add_entry", "empty_index", "read_index"]

Json = dict[str, object]

REF_NAME = "org.opencontainers.image.ref.name"
# What containerd and buildkit call an image's full name by.
IMAGE_NAME = "io.containerd.image.name"


class IndexEntry(Value):
    """An image for the index: what it is, its full name, and the short one it would like."""

    media_type: str
    digest: str
    size: int
    platform: Platform
    image: str
    tag: str


def empty_index() -> Json:
    """An index without images."""
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}


def read_index(content: bytes) -> Json | None:
    """The index in a file, or None if it is none."""
    try:
        document = loads(content)
    except DocumentError:
        return None
    manifests = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(manifests, list) or not all(isinstance(entry, dict) for entry in manifests):
        return None
    return document if isinstance(document, dict) else None


def add_entry(index: Json, entry: IndexEntry) -> tuple[Json, str]:
    """The index with *entry* in place of what had its full name, and the name that tools know it by.

    That is the tag; where the layout has another image by that name, the full name.
    """
    manifests = index.get("manifests")
    kept = [
        other
        for other in (manifests if isinstance(manifests, list) else [])
        if _annotation(other, IMAGE_NAME) != entry.image
    ]
    is_taken = not entry.tag or any(_annotation(other, REF_NAME) == entry.tag for other in kept)
    name = entry.image if is_taken else entry.tag
    return {**index, "manifests": [*kept, _to_document(entry, name)]}, name


def _to_document(entry: IndexEntry, name: str) -> Json:
    parts = {
        "architecture": entry.platform.architecture,
        "os": entry.platform.os,
        "variant": entry.platform.variant,
    }
    platform = {part: value for part, value in parts.items() if value}
    document: Json = {"mediaType": entry.media_type, "digest": entry.digest, "size": entry.size}
    if "os" in platform and "architecture" in platform:
        document["platform"] = platform
    return {**document, "annotations": {REF_NAME: name, IMAGE_NAME: entry.image}}


def _annotation(entry: Json, name: str) -> object:
    annotations = entry.get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None
