"""Pull an image into an OCI layout with one credential: one platform, every byte verified."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from threading import Event

from keyferry._core.values import replace
from keyferry._net.deadline import Deadline
from keyferry.errors import Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.layout.blobs import FetchContext, fetch_blobs
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.layout.index import IndexEntry
from keyferry.pulls.layout.meter import Meter, Progress
from keyferry.pulls.manifest import (
    ContentError,
    ImageManifest,
    choose_manifest,
    read_config_platform,
    read_manifest,
)
from keyferry.pulls.platform import Platform, preferences, this_machine
from keyferry.pulls.registry.client import Fetched, Registry, RegistryAccess
from keyferry.pulls.registry.transport import RegistryRoute, Transport
from keyferry.pulls.stored_image import StoredImage
from keyferry.pulls.trial import AttemptResult

__all__ = ["LayoutPull", "describe_image"]

_DEEPEST = 3


class LayoutPull:
    """One attempt to pull an image, which another thread can cancel."""

    def __init__(
        self,
        image: ImageName,
        folder: str | os.PathLike[str],
        *,
        platform: Platform | None = None,
        route: RegistryRoute = RegistryRoute(),
        timeout_seconds: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._image = image
        self._layout = Layout(os.fspath(folder))
        self._platform = platform
        self._threads = route.parallel_blobs
        self._on_progress = on_progress
        self._deadline = Deadline(float("inf") if timeout_seconds is None else timeout_seconds)
        self._transport = Transport(route, self._deadline)
        self._stop = Event()

    def run(self, credential: Credential | None = None) -> AttemptResult:
        """Pull the image; raise RegistryError if the registry fails, EnvironmentProblem if the folder is not usable."""
        self._layout.prepare()
        with closing(self._transport):
            registry = RegistryAccess(self._transport, self._image).with_credential(credential)
            if self._stop.is_set():
                raise RegistryError(registry.name, 0, "cancelled", Kind.ERROR)
            try:
                fetched, manifest = self._find_manifest(registry)
                platform = self._fetch(registry, manifest)
            except ContentError as error:
                raise RegistryError(
                    registry.name, 0, f"{self._image.text!r}: {error}", Kind.CONTENT
                ) from None
        stored = self._store(manifest, platform)
        return AttemptResult(
            image_ref=stored.id, was_asked=registry.asked_for_credential, digest=fetched.digest, stored=stored
        )

    def cancel(self) -> None:
        """Cancel the pull, from another thread; the next pull resumes from the bytes that were fetched."""
        self._stop.set()
        self._transport.interrupt()

    def _find_manifest(self, registry: Registry) -> tuple[Fetched, ImageManifest]:
        """Return the manifest or index that the name refers to, and the manifest for the wanted platform."""
        first = fetched = registry.get_manifest(self._image.reference)
        for _ in range(_DEEPEST):
            found = read_manifest(fetched.content, fetched.content_type, fetched.digest)
            if isinstance(found, ImageManifest):
                return first, found
            entry = choose_manifest(found, self._platform or this_machine())
            fetched = registry.get_manifest(entry.digest)
            if len(fetched.content) != entry.size:
                raise ContentError(f"the manifest {entry.digest} has another size than its index states")
            fetched = replace(fetched, content_type=entry.media_type)
        raise ContentError(f"its manifest is nested more than {_DEEPEST} levels deep")

    def _fetch(self, registry: Registry, manifest: ImageManifest) -> Platform:
        meter = Meter(manifest, self._layout, self._on_progress)
        work = FetchContext(
            registry=registry, layout=self._layout, deadline=self._deadline, meter=meter, stop=self._stop
        )
        fetch_blobs(work, [manifest.config], 1, self._transport.interrupt)
        platform = read_config_platform(self._layout.read(manifest.config.digest) or b"")
        # Checked only if a platform was requested: an image for a single, other platform may be wanted on purpose.
        if self._platform is not None and platform not in preferences(self._platform):
            raise ContentError(f"no image for {self._platform}; this one is for {platform}")
        fetch_blobs(work, manifest.blobs[1:], self._threads, self._transport.interrupt)
        return platform

    def _store(self, manifest: ImageManifest, platform: Platform) -> StoredImage:
        image, size = self._image.in_full(), len(manifest.content)
        self._layout.put(manifest.content, manifest.digest)
        entry = IndexEntry(
            media_type=manifest.media_type,
            digest=manifest.digest,
            size=size,
            platform=platform,
            image=image.text,
            tag=image.tag,
        )
        name = self._layout.add(entry)
        return describe_image(manifest, image, name, platform)


def describe_image(
    manifest: ImageManifest, image: ImageName, name: str, platform: Platform | None
) -> StoredImage:
    """Return the image of a layout with this manifest and the names of its index entry: the full one and the short."""
    tags, by_digest = ((), (image.text,)) if image.digest else ((image.text,), ())
    digests = dict.fromkeys((f"{image.repository}@{manifest.digest}", *by_digest))
    return StoredImage(
        id=manifest.config.digest,
        tags=tags,
        digests=tuple(digests),
        size=len(manifest.content) + sum(blob.size for blob in manifest.blobs),
        name=name,
        manifest_digest=manifest.digest,
        platform=platform,
        layers=manifest.layers,
    )
