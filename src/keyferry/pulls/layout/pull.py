"""Pull an image into an OCI layout: the first credential that works, one platform, every byte verified."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event

from keyferry._core.values import Value, field, replace
from keyferry.errors import PullError, RegistryError
from keyferry.images.keyring import Credential
from keyferry.pulls.layout.blobs import Meter, Progress, Work, fetch_blobs
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.layout.index import Entry
from keyferry.pulls.registry.attempt import Attempt, Renew, Trial
from keyferry.pulls.registry.client import Fetched, Registry
from keyferry.pulls.registry.manifest import (
    ContentError,
    Descriptor,
    ImageManifest,
    choose_manifest,
    read_config_platform,
    read_manifest,
)
from keyferry.pulls.registry.platform import Platform, preferences, this_machine
from keyferry.pulls.registry.route import Route
from keyferry.pulls.registry.target import find_target
from keyferry.pulls.registry.transport import Deadline, Transport

__all__ = ["LayoutPull", "Pulled", "pull_to_layout", "pull_to_layout_async"]

_DEEPEST = 3
_THREADS = 3


class Pulled(Value):
    """An image that is in a layout now.

    *digest* is what its name stands for in the registry, an index or a manifest; *manifest_digest* the manifest in
    the layout, under *name*; *image_id* the digest of its config. *used* is the credential that worked.
    """

    image: str
    folder: str
    name: str
    digest: str
    manifest_digest: str
    image_id: str
    platform: Platform
    size: int
    layers: tuple[Descriptor, ...] = field(repr=False)
    used: Credential | None
    attempts: tuple[Attempt, ...]


class LayoutPull:
    """One pull, which another thread can cancel."""

    def __init__(
        self,
        image: str,
        folder: "str | os.PathLike[str]",
        *,
        platform: Platform | None = None,
        route: Route = Route(),
        timeout_seconds: float | None = None,
        threads: int = _THREADS,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._target = find_target(image)
        self._layout = Layout(os.fspath(folder))
        self._platform = platform
        self._threads = threads
        self._on_progress = on_progress
        self._deadline = Deadline(float("inf") if timeout_seconds is None else timeout_seconds)
        self._transport = Transport(route, self._deadline)
        self._is_cancelled = False
        self._stop = Event()

    def run(self, credentials: Sequence[Credential] = (), renew: Renew | None = None) -> Pulled:
        """Pull; raises PullError with what the registry said to each credential, EnvironmentProblem for the folder."""
        self._layout.prepare()
        with closing(self._transport):
            trial = Trial(self._transport, self._target, self._pull)
            attempts = trial.run(credentials, renew=renew)
        if trial.result is None:
            failures = tuple(attempt.error for attempt in attempts if attempt.error is not None)
            raise PullError(self._target.registry, self._target.image, failures)
        return replace(trial.result, used=attempts[-1].credential, attempts=attempts)

    def cancel(self) -> None:
        """End it from another thread; what has been fetched is there for the next time."""
        self._is_cancelled = True
        self._stop.set()
        self._transport.interrupt()

    def _pull(self, registry: Registry) -> tuple[Pulled, str]:
        self._stop = Event()
        if self._is_cancelled:
            raise RegistryError(registry.name, 0, "cancelled", "error")
        try:
            fetched, manifest = self._find_manifest(registry)
            platform = self._fetch(registry, manifest)
        except ContentError as error:
            raise RegistryError(registry.name, 0, f"{self._target.image!r}: {error}", "content") from None
        return self._store(manifest, platform, fetched.digest), fetched.digest

    def _find_manifest(self, registry: Registry) -> tuple[Fetched, ImageManifest]:
        """What the name stands for, and the manifest of the wanted platform below it."""
        first = fetched = registry.get_manifest(self._target.reference)
        for _ in range(_DEEPEST):
            found = read_manifest(fetched.content, fetched.content_type, fetched.digest)
            if isinstance(found, ImageManifest):
                return first, found
            entry = choose_manifest(found, self._platform or this_machine())
            fetched = registry.get_manifest(entry.digest)
            if len(fetched.content) != entry.size:
                raise ContentError(f"the manifest {entry.digest} has another size than its index says")
            fetched = replace(fetched, content_type=entry.media_type)
        raise ContentError(f"its indexes are more than {_DEEPEST} deep")

    def _fetch(self, registry: Registry, manifest: ImageManifest) -> Platform:
        meter = Meter(sum(blob.size for blob in manifest.blobs), self._on_progress)
        work = Work(registry, self._layout, self._deadline, meter, self._stop)
        fetch_blobs(work, [manifest.config], 1, self._transport.interrupt)
        platform = read_config_platform(self._layout.read(manifest.config.digest) or b"")
        # Only where somebody asked: an image that is there for one platform alone may be wanted all the same.
        if self._platform is not None and platform not in preferences(self._platform):
            raise ContentError(f"no image for {self._platform}; this one is for {platform}")
        fetch_blobs(work, manifest.blobs[1:], self._threads, self._transport.interrupt)
        return platform

    def _store(self, manifest: ImageManifest, platform: Platform, digest: str) -> Pulled:
        target, size = self._target, len(manifest.content)
        self._layout.put(manifest.content, manifest.digest)
        entry = Entry(manifest.media_type, manifest.digest, size, platform, target.full_name, target.tag)
        name = self._layout.add(entry)
        return Pulled(
            image=target.image,
            folder=self._layout.folder,
            name=name,
            digest=digest,
            manifest_digest=manifest.digest,
            image_id=manifest.config.digest,
            platform=platform,
            size=size + sum(blob.size for blob in manifest.blobs),
            layers=manifest.layers,
            used=None,
            attempts=(),
        )


def pull_to_layout(
    image: str,
    folder: "str | os.PathLike[str]",
    credentials: Sequence[Credential] = (),
    *,
    platform: Platform | None = None,
    route: Route = Route(),
    timeout_seconds: float | None = None,
    threads: int = _THREADS,
    on_progress: Callable[[Progress], None] | None = None,
    renew: Renew | None = None,
) -> Pulled:
    """Pull *image* into the OCI layout in *folder*, with the first of the credentials that works.

    Without any the attempt is anonymous, as the kubelet's is. *platform* is this machine's unless given. *renew* is
    asked for a fresh credential when one is refused. *on_progress* is called from several threads, one at a time.
    Raises PullError, ImageNameError, and EnvironmentProblem for a folder that cannot be used.
    """
    pull = LayoutPull(
        image,
        folder,
        platform=platform,
        route=route,
        timeout_seconds=timeout_seconds,
        threads=threads,
        on_progress=on_progress,
    )
    return pull.run(credentials, renew)


async def pull_to_layout_async(
    image: str,
    folder: "str | os.PathLike[str]",
    credentials: Sequence[Credential] = (),
    *,
    platform: Platform | None = None,
    route: Route = Route(),
    timeout_seconds: float | None = None,
    threads: int = _THREADS,
    on_progress: Callable[[Progress], None] | None = None,
    renew: Renew | None = None,
) -> Pulled:
    """As ``pull_to_layout``, without blocking the event loop; cancelling ends the pull."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    pull = LayoutPull(
        image,
        folder,
        platform=platform,
        route=route,
        timeout_seconds=timeout_seconds,
        threads=threads,
        on_progress=on_progress,
    )
    executor = ThreadPoolExecutor(1, thread_name_prefix="keyferry-pull")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, pull.run, credentials, renew)
    except asyncio.CancelledError:
        pull.cancel()
        raise
    finally:
        executor.shutdown(wait=False)
