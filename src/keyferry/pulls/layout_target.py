"""A folder in the OCI image layout as a target of pulls: fetch one platform of an image, and verify every byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event, Lock
from time import sleep

from keyferry._core.values import replace
from keyferry._net.deadline import Deadline
from keyferry.errors import EnvironmentProblem, HttpError, ImageNameError, Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.layout import IMAGE_NAME, REF_NAME, Draft, IndexEntry, Layout, read_index
from keyferry.pulls.manifest import (
    ContentError,
    Descriptor,
    ImageManifest,
    Platform,
    StoredImage,
    choose_manifest,
    digest_of,
    hasher,
    normalise,
    preferences,
    read_config_platform,
    read_manifest,
    this_machine,
)
from keyferry.pulls.registry.client import Fetched, Registry, RegistryAccess
from keyferry.pulls.registry.transport import RegistryRoute, Transport
from keyferry.pulls.request import OnProgress, Progress, PullOptions
from keyferry.pulls.trial import AttemptResult

_MAX_DEPTH = 3
_MAX_BREAKS = 3
# A connection that delivered this many bytes does not count as a failed one.
_MIN_PROGRESS_BYTES = 1 << 20
_PAUSE_SECONDS = 0.05


class LayoutTarget:
    """The layout in a folder; this process fetches the images from the registry."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        platform: Platform | None = None,
        route: RegistryRoute = RegistryRoute(),
    ) -> None:
        self._layout = Layout(os.path.abspath(os.fspath(folder)))
        self._platform = platform
        self._route = route
        self._lock = Lock()
        self._under_way: set[_Connection] = set()
        self._is_closed = False

    @property
    def place(self) -> str:
        """The path of the folder."""
        return self._layout.folder

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
            image for image in _list_images(self._layout) if wanted is None or image.platform in wanted
        )

    def pull_image(
        self, image: ImageName, credential: Credential | None, options: PullOptions = PullOptions()
    ) -> AttemptResult:
        """Fetch the missing blobs of the image, verify them, and add the image to the index.

        Raise RegistryError if the registry fails, and EnvironmentProblem if the folder is not usable.
        """
        connection = _Connection(self._route, options.timeout_seconds)
        with self._lock:
            self._under_way.add(connection)
            if self._is_closed:
                connection.cancel()
        try:
            return self._pull(image, credential, options, connection)
        finally:
            with self._lock:
                self._under_way.discard(connection)

    def close(self) -> None:
        """Cancel the pulls in progress and all later ones; the bytes that were fetched are kept."""
        with self._lock:
            self._is_closed = True
            for connection in self._under_way:
                connection.cancel()

    def _pull(
        self,
        image: ImageName,
        credential: Credential | None,
        options: PullOptions,
        connection: _Connection,
    ) -> AttemptResult:
        self._layout.prepare()
        with closing(connection.transport):
            registry = RegistryAccess(connection.transport, image.registry).open_repository(image, credential)
            if connection.stop.is_set():
                raise RegistryError(registry.name, 0, "cancelled", Kind.ERROR)
            try:
                fetched, manifest = self._find_manifest(registry, image)
                meter = Meter(manifest, self._layout, options.on_progress)
                platform = self._fetch(manifest, _Fetcher(registry, self._layout, connection, meter))
            except ContentError as error:
                raise RegistryError(registry.name, 0, f"{image.text!r}: {error}", Kind.CONTENT) from None
        stored = self._store(image.in_full(), manifest, platform)
        return AttemptResult(
            image_ref=stored.id, was_asked=registry.asked_for_credential, digest=fetched.digest, stored=stored
        )

    def _find_manifest(self, registry: Registry, image: ImageName) -> tuple[Fetched, ImageManifest]:
        """Return the manifest or index that the name refers to, and the manifest for the wanted platform."""
        first = fetched = registry.get_manifest(image.reference)
        for _ in range(_MAX_DEPTH):
            found = read_manifest(fetched.content, fetched.content_type, fetched.digest)
            if isinstance(found, ImageManifest):
                return first, found
            entry = choose_manifest(found, self._platform or this_machine())
            fetched = registry.get_manifest(entry.digest)
            if len(fetched.content) != entry.size:
                raise ContentError(f"the manifest {entry.digest} has another size than its index states")
            fetched = replace(fetched, content_type=entry.media_type)
        raise ContentError(f"its manifest is nested more than {_MAX_DEPTH} levels deep")

    def _fetch(self, manifest: ImageManifest, fetcher: _Fetcher) -> Platform:
        """Fetch the config and then the layers, and return the platform that the config names."""
        fetcher.fetch_all([manifest.config], 1)
        platform = read_config_platform(self._layout.read(manifest.config.digest) or b"")
        # Checked only if a platform was requested: an image for a single, other platform may be wanted on purpose.
        if self._platform is not None and platform not in preferences(self._platform):
            raise ContentError(f"no image for {self._platform}; this one is for {platform}")
        fetcher.fetch_all(manifest.blobs[1:], self._route.parallel_blobs)
        return platform

    def _store(self, image: ImageName, manifest: ImageManifest, platform: Platform) -> StoredImage:
        self._layout.put(manifest.content, manifest.digest)
        entry = IndexEntry(
            media_type=manifest.media_type,
            digest=manifest.digest,
            size=len(manifest.content),
            platform=platform,
            image=image.text,
            tag=image.tag,
        )
        return _describe_image(manifest, image, self._layout.add(entry), platform)


class _Connection:
    """The connections of one attempt, its deadline, and the signal to stop, which another thread may give."""

    def __init__(self, route: RegistryRoute, timeout_seconds: float | None) -> None:
        self.deadline = Deadline(float("inf") if timeout_seconds is None else timeout_seconds)
        self.transport = Transport(route, self.deadline)
        self.stop = Event()

    def cancel(self) -> None:
        """Cancel the attempt; the next pull resumes from the bytes that were fetched."""
        self.stop.set()
        self.transport.interrupt()


class _Fetcher:
    """Fetch the blobs of an image into a layout: in parallel, each only once, and resuming interrupted downloads."""

    def __init__(self, registry: Registry, layout: Layout, connection: _Connection, meter: Meter) -> None:
        self._registry = registry
        self._layout = layout
        self._connection = connection
        self._meter = meter

    def fetch_all(self, blobs: Sequence[Descriptor], threads: int) -> None:
        """Fetch the blobs that are not stored yet; raise the error of the first that fails, which stops the others."""
        with ThreadPoolExecutor(min(threads, len(blobs) or 1), thread_name_prefix="keyferry-blob") as pool:
            futures = [pool.submit(self._fetch, blob) for blob in blobs]
            try:
                done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
            except BaseException:
                done, waiting = set(), set(futures)
                raise
            finally:
                if waiting:
                    pool.shutdown(wait=False, cancel_futures=True)
                    self._connection.cancel()
        for future in futures:
            if future in done:
                future.result()

    def _fetch(self, blob: Descriptor) -> None:
        """Fetch one blob, unless it is stored; wait while another process fetches it."""
        layout, connection = self._layout, self._connection
        while not layout.has(blob):
            with layout.drafts() as drafts, closing(Draft(drafts, blob)) as draft:
                # Checked again, because another process may have stored it before the lock was acquired.
                if draft.lock() and not layout.has(blob):
                    layout.remove(blob.digest)
                    self._complete(blob, draft)
                    layout.adopt(drafts, blob.digest)
                    return
            if connection.stop.is_set() or connection.deadline.seconds_left <= 0:
                raise RegistryError(
                    self._registry.name, 0, f"{blob.digest}: not fetched in time", Kind.TIMEOUT
                )
            sleep(_PAUSE_SECONDS)
        self._meter.set(blob, blob.size)

    def _complete(self, blob: Descriptor, draft: Draft) -> None:
        """Fetch the missing bytes of a draft, verify its digest and write it durably to the disk."""
        try:
            draft.resume()
            self._meter.set(blob, draft.size)
            was_resumed = draft.size > 0
            self._fetch_rest(blob, draft)
            if not draft.is_complete() and was_resumed:
                # The bytes of an earlier pull may be wrong, so the blob is fetched once from the start.
                self._restart(blob, draft)
                self._fetch_rest(blob, draft)
            if not draft.is_complete():
                self._restart(blob, draft)
                raise self._content_error(f"the content it sent for {blob.digest} has another digest")
            draft.sync()
        except OSError as error:
            raise EnvironmentProblem(
                f"{self._layout.folder}: cannot store a layer: {error.strerror}"
            ) from None

    def _restart(self, blob: Descriptor, draft: Draft) -> None:
        draft.restart()
        self._meter.set(blob, 0)

    def _fetch_rest(self, blob: Descriptor, draft: Draft) -> None:
        """Fetch until the size is reached; resume after a broken connection, a limited number of times."""
        breaks = 0
        while draft.size < blob.size:
            before = draft.size
            try:
                self._receive(blob, draft)
            except HttpError as error:
                breaks = 0 if draft.size - before >= _MIN_PROGRESS_BYTES else breaks + 1
                if self._connection.stop.is_set() or error.is_timeout or breaks > _MAX_BREAKS:
                    raise RegistryError(self._registry.name, 0, str(error), error.kind) from None

    def _receive(self, blob: Descriptor, draft: Draft) -> None:
        """Read one response into the draft; the registry may send the whole blob although the rest was requested."""
        answer, start = self._registry.open_blob(blob, draft.size)
        with answer:
            if start != draft.size:
                self._restart(blob, draft)
            for piece in answer.pieces(is_timed=False):
                if draft.size + len(piece) > blob.size:
                    raise self._content_error(f"sends more bytes for {blob.digest} than the manifest states")
                draft.write(piece)
                self._meter.set(blob, draft.size)
                if self._connection.stop.is_set():
                    raise RegistryError(self._registry.name, 0, "interrupted", Kind.ERROR)
        if draft.size < blob.size:
            raise self._content_error(f"sends fewer bytes for {blob.digest} than the manifest states")

    def _content_error(self, message: str) -> RegistryError:
        return RegistryError(self._registry.name, 0, message, Kind.CONTENT)


class Meter:
    """The number of stored bytes of each blob, set by all threads of a pull; *tell* is called after each change."""

    def __init__(self, manifest: ImageManifest, layout: Layout, tell: OnProgress | None) -> None:
        self._tell = tell
        self._lock = Lock()
        if tell is None:
            return
        self._stored = {blob.digest: layout.bytes_of(blob) for blob in manifest.blobs}
        self._layers = {layer.digest for layer in manifest.layers}
        self._total = sum(blob.size for blob in manifest.blobs)
        self._found = self._done = sum(self._stored.values())
        self._layers_done = sum(
            blob.digest in self._layers and self._stored[blob.digest] == blob.size for blob in manifest.blobs
        )
        tell(self._progress())

    def set(self, blob: Descriptor, size: int) -> None:
        """Set the number of bytes of *blob* that are stored."""
        if self._tell is None:
            return
        with self._lock:
            before = self._stored[blob.digest]
            if size == before:
                return
            self._stored[blob.digest] = size
            self._done += size - before
            if blob.digest in self._layers:
                self._layers_done += (size == blob.size) - (before == blob.size)
            self._tell(self._progress())

    def _progress(self) -> Progress:
        return Progress(
            done=self._done,
            total=self._total,
            layers_done=self._layers_done,
            layers=len(self._layers),
            found=self._found,
        )


def _list_images(layout: Layout) -> Iterator[StoredImage]:
    """Yield the images of a layout that have all their blobs; none if there is no layout.

    Raise EnvironmentProblem if the index cannot be read.
    """
    content = layout.read_index()
    if content is None:
        return
    index = read_index(content)
    if index is None:
        path = os.path.join(layout.folder, "index.json")
        raise EnvironmentProblem(f"{path}: is not the index of an OCI layout")
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
    return _describe_image(manifest, image, name, _read_platform(entry.get("platform")))


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


def _read_platform(document: object) -> Platform | None:
    if not isinstance(document, dict):
        return None
    parts = {part: document.get(part, "") for part in ("os", "architecture", "variant")}
    if not all(isinstance(value, str) for value in parts.values()):
        return None
    return normalise(Platform(**{part: str(value) for part, value in parts.items()}))


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


def _describe_image(
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
