"""The index of an OCI image layout, as a document that lists images and their names. Pure functions."""

from __future__ import annotations

from keyferry._core.json import loads
from keyferry._core.values import Value
from keyferry.errors import DocumentError
from keyferry.pulls.platform import Platform

__all__ = ["IndexEntry", "add_entry", "empty_index", "read_index"]

Json = dict[str, object]

REF_NAME = "org.opencontainers.image.ref.name"
# The annotation that containerd and buildkit use for an image's full name.
IMAGE_NAME = "io.containerd.image.name"


class IndexEntry(Value):
    """An image to be added to the index: its manifest, its full name, and its preferred short name, the tag."""

    media_type: str
    digest: str
    size: int
    platform: Platform
    image: str
    tag: str


def empty_index() -> Json:
    """Return an index without images."""
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}


def read_index(content: bytes) -> Json | None:
    """Parse the content of an index file; return None if it is not an index."""
    try:
        document = loads(content)
    except DocumentError:
        return None
    manifests = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(manifests, list) or not all(isinstance(entry, dict) for entry in manifests):
        return None
    return document if isinstance(document, dict) else None


def add_entry(index: Json, entry: IndexEntry) -> tuple[Json, str]:
    """Return the index with *entry* in place of the entry with the same full name, and the new entry's short name.

    The short name is the tag, or the full name if the tag is empty or another image of the layout has it.
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
