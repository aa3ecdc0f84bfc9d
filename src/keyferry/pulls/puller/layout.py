"""A folder in the OCI image layout as a destination of pulls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from threading import Lock

from keyferry.errors import EnvironmentProblem, ImageNameError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.layout.index import IMAGE_NAME, REF_NAME, read_index
from keyferry.pulls.layout.pull import LayoutPull, describe_image
from keyferry.pulls.manifest import ContentError, ImageManifest, digest_of, hasher, read_manifest
from keyferry.pulls.platform import Platform, preferences
from keyferry.pulls.platform import normalise as normalise_platform
from keyferry.pulls.puller.target import OnProgress
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.stored_image import StoredImage
from keyferry.pulls.trial import AttemptResult

__all__ = ["LayoutTarget", "list_layout"]


class LayoutTarget:
    """The layout in a folder; this process fetches the images from the registry."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        platform: Platform | None = None,
        route: RegistryRoute = RegistryRoute(),
    ) -> None:
        self._folder = os.path.abspath(os.fspath(folder))
        self._platform = platform
        self._route = route
        self._lock = Lock()
        self._under_way: set[LayoutPull] = set()
        self._is_closed = False

    @property
    def place(self) -> str:
        """The path of the folder."""
        return self._folder

    @property
    def runtime_socket(self) -> str:
        """An empty string: kubelets do not use layouts."""
        return ""

    def find_image(self, image: str) -> StoredImage | None:
        """Return the complete image with that name or id, for the wanted platform, or None."""
        names = _names_of(image)
        for found in self.list_images():
            if found.id == image or names.intersection((*found.tags, *found.digests)):
                return found
        return None

    def list_images(self) -> tuple[StoredImage, ...]:
        """Return every complete image for the wanted platform, or for any platform if none is set."""
        wanted = None if self._platform is None else tuple(preferences(self._platform))
        return tuple(
            image for image in list_layout(self._folder) if wanted is None or image.platform in wanted
        )

    def pull_image(
        self,
        image: ImageName,
        credential: Credential | None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> AttemptResult:
        """Fetch the missing blobs of the image, verify them, and add the image to the index."""
        pull = LayoutPull(
            image,
            self._folder,
            platform=self._platform,
            route=self._route,
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
        )
        with self._lock:
            self._under_way.add(pull)
            if self._is_closed:
                pull.cancel()
        try:
            return pull.run(credential)
        finally:
            with self._lock:
                self._under_way.discard(pull)

    def close(self) -> None:
        """Cancel the pulls in progress and all later ones; the bytes that were fetched are kept."""
        with self._lock:
            self._is_closed = True
            for pull in self._under_way:
                pull.cancel()


def list_layout(folder: str) -> Iterator[StoredImage]:
    """Yield the images of a layout that have all their blobs; none if there is no layout.

    Raise EnvironmentProblem if the index cannot be read.
    """
    layout = Layout(folder)
    content = layout.read_index()
    if content is None:
        return
    index = read_index(content)
    if index is None:
        raise EnvironmentProblem(f"{os.path.join(folder, 'index.json')}: is not the index of an OCI layout")
    entries = index["manifests"]
    for entry in entries if isinstance(entries, list) else ():
        image = _read_image(layout, entry)
        if image is not None:
            yield image


def _read_image(layout: Layout, entry: dict[str, object]) -> StoredImage | None:
    full_name, name = _names_in(entry)
    manifest = _manifest(layout, str(entry.get("digest")), str(entry.get("mediaType"))) if full_name else None
    if manifest is None or not _is_whole(layout, manifest):
        return None
    try:
        image = parse_image(full_name)
    except ImageNameError:
        return None
    return describe_image(manifest, image, name, _platform(entry.get("platform")))


def _names_in(entry: dict[str, object]) -> tuple[str, str]:
    """Return the full name of an index entry, and its name in the layout; either may be empty.

    A tag without a registry is not a full name.
    """
    annotations = entry.get("annotations")
    if not isinstance(annotations, dict):
        return "", ""
    name = annotations.get(REF_NAME)
    full_name = annotations.get(IMAGE_NAME) or name
    return (
        full_name if isinstance(full_name, str) and "/" in full_name else "",
        name if isinstance(name, str) else "",
    )


def _manifest(layout: Layout, digest: str, media_type: str) -> ImageManifest | None:
    try:
        hasher(digest)  # checked first, because the digest becomes part of a path
        content = layout.read(digest)
        if content is None or digest_of(content, digest) != digest:
            return None
        found = read_manifest(content, media_type, digest)
    except ContentError:
        return None
    return found if isinstance(found, ImageManifest) else None


def _is_whole(layout: Layout, manifest: ImageManifest) -> bool:
    """Return whether every blob has the right size; the content was verified when it was fetched."""
    return all(layout.size_of(blob.digest) == blob.size for blob in manifest.blobs)


def _platform(document: object) -> Platform | None:
    if not isinstance(document, dict):
        return None
    parts = {part: document.get(part, "") for part in ("os", "architecture", "variant")}
    if not all(isinstance(value, str) for value in parts.values()):
        return None
    return normalise_platform(Platform(**{part: str(value) for part, value in parts.items()}))


def _names_of(image: str) -> frozenset[str]:
    """Return the full names that an image may have in an index."""
    try:
        name = parse_image(image)
    except ImageNameError:
        return frozenset()
    names = {name.in_full().text}
    if name.digest:
        names.add(f"{name.repository}@{name.digest}")
    return frozenset(names)
