"""Pull into a folder with known credentials, always, even if the image is already there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict, Unpack

from keyferry.images.keyring import Credential
from keyferry.pulls.platform import Platform
from keyferry.pulls.puller.outcome import PullOutcome
from keyferry.pulls.puller.pull_policy import ALWAYS
from keyferry.pulls.puller.puller import pull, pull_async
from keyferry.pulls.puller.target import OnProgress
from keyferry.pulls.registry.transport import RegistryRoute


class LayoutSettings(TypedDict, total=False):
    """Other options of ``pull``."""

    platform: Platform | str | None
    route: RegistryRoute
    timeout_seconds: float | None
    on_progress: OnProgress | None


def pull_to_layout(
    image: str,
    folder: str | os.PathLike[str],
    credentials: Sequence[Credential] = (),
    **settings: Unpack[LayoutSettings],
) -> PullOutcome:
    """Pull *image* into *folder*."""
    return pull(image, to=folder, credentials=credentials, pull_policy=ALWAYS, **settings)


async def pull_to_layout_async(
    image: str,
    folder: str | os.PathLike[str],
    credentials: Sequence[Credential] = (),
    **settings: Unpack[LayoutSettings],
) -> PullOutcome:
    """Pull *image* into *folder* without blocking the event loop."""
    return await pull_async(image, to=folder, credentials=credentials, pull_policy=ALWAYS, **settings)
