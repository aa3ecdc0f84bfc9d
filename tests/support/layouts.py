"""Pull into a folder with known credentials, always, even if the image is already there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keyferry.images.keyring import Credential
from keyferry.pulls.manifest import Platform
from keyferry.pulls.puller import pull, pull_async
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.request import ALWAYS, OnProgress, PullOptions, PullOutcome


def pull_to_layout(
    image: str,
    folder: str | os.PathLike[str],
    credentials: Sequence[Credential] = (),
    *,
    platform: Platform | str | None = None,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float | None = None,
    on_progress: OnProgress | None = None,
) -> PullOutcome:
    """Pull *image* into *folder*."""
    options = PullOptions(
        credentials=credentials,
        pull_policy=ALWAYS,
        timeout_seconds=timeout_seconds,
        on_progress=on_progress,
    )
    return pull(image, options, to=folder, platform=platform, route=route)


async def pull_to_layout_async(
    image: str,
    folder: str | os.PathLike[str],
    credentials: Sequence[Credential] = (),
    *,
    platform: Platform | str | None = None,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float | None = None,
    on_progress: OnProgress | None = None,
) -> PullOutcome:
    """Pull *image* into *folder* without blocking the event loop."""
    options = PullOptions(
        credentials=credentials,
        pull_policy=ALWAYS,
        timeout_seconds=timeout_seconds,
        on_progress=on_progress,
    )
    return await pull_async(image, options, to=folder, platform=platform, route=route)
