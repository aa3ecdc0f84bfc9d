"""The destinations of pulls: the interface that a puller uses, and container runtimes behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from keyferry.errors import ContainerRuntimeError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.cri.client import Runtime
from keyferry.pulls.layout.meter import Progress
from keyferry.pulls.stored_image import StoredImage
from keyferry.pulls.trial import AttemptResult

__all__ = ["OnProgress", "PullTarget", "RuntimeTarget"]

OnProgress = Callable[[Progress], None]


class PullTarget(Protocol):
    """A destination of pulls; safe to use from several threads."""

    @property
    def place(self) -> str:
        """The target's name, for messages."""

    @property
    def runtime_socket(self) -> str:
        """The path of the container runtime's socket; empty if the target is not a container runtime."""

    def find_image(self, image: str) -> StoredImage | None:
        """Return the image with that name, including its tag, or that reference; None if it is absent."""

    def list_images(self) -> Iterable[StoredImage]:
        """Return every image of the target."""

    def pull_image(
        self,
        image: ImageName,
        credential: Credential | None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> AttemptResult:
        """Pull with one credential, or anonymously; raise ContainerRuntimeError or RegistryError if it fails.

        The text of *image* includes its tag.
        """

    def close(self) -> None:
        """Stop the pulls in progress, and close the target."""


class RuntimeTarget:
    """A container runtime, over its CRI socket."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def place(self) -> str:
        """The socket's address, with its scheme."""
        return f"unix://{self._runtime.socket}"

    @property
    def runtime_socket(self) -> str:
        """The path of the runtime's socket."""
        return self._runtime.socket

    def find_image(self, image: str) -> StoredImage | None:
        """Return the runtime's image with a name or reference, or None."""
        return self._runtime.find_image(image)

    def list_images(self) -> tuple[StoredImage, ...]:
        """Return every image of the runtime."""
        return self._runtime.list_images()

    def pull_image(
        self,
        image: ImageName,
        credential: Credential | None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,  # noqa: ARG002 - the CRI reports no progress
    ) -> AttemptResult:
        """Have the runtime pull the image from its registry."""
        ref = self._runtime.pull_image(image.text, credential, timeout_seconds=timeout_seconds)
        if not ref:
            raise ContainerRuntimeError(
                self._runtime.socket, "UNKNOWN", f'imageRef of image "{image.text}" is not set'
            )
        return AttemptResult(image_ref=ref)

    def close(self) -> None:
        """Close the connection, which ends the calls in progress."""
        self._runtime.close()
