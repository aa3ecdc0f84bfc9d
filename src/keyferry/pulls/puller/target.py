"""Where images go: a container runtime or a folder, behind the three things that a puller needs of either."""

from collections.abc import Callable, Iterable
from typing import Protocol

from keyferry.errors import ContainerRuntimeError
from keyferry.images.keyring import Credential
from keyferry.pulls.cri.client import Runtime
from keyferry.pulls.layout.blobs import Progress
from keyferry.pulls.stored_image import StoredImage
from keyferry.pulls.trial import AttemptResult

__all__ = ["OnProgress", "PullTarget", "RuntimeTarget"]

OnProgress = Callable[[Progress], None]


class PullTarget(Protocol):
    """Somewhere to pull images to; safe to use from several threads."""

    @property
    def place(self) -> str:
        """What it is called."""

    @property
    def runtime_socket(self) -> str:
        """The socket of the container runtime that has the images; empty where no kubelet looks."""

    def find_image(self, image: str) -> StoredImage | None:
        """The image of that name, tag included, or of that reference; None if it is not there."""

    def list_images(self) -> Iterable[StoredImage]:
        """Every image that is there."""

    def pull_image(
        self,
        image: str,
        credential: Credential | None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> AttemptResult:
        """Pull with one credential, or anonymously; raises ContainerRuntimeError or RegistryError."""

    def close(self) -> None:
        """End what is under way, and be done."""


class RuntimeTarget:
    """A container runtime, over its CRI socket."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def place(self) -> str:
        """Its socket."""
        return f"unix://{self._runtime.socket}"

    @property
    def runtime_socket(self) -> str:
        """Its path."""
        return self._runtime.socket

    def find_image(self, image: str) -> StoredImage | None:
        """What the runtime has under a name or reference."""
        return self._runtime.find_image(image)

    def list_images(self) -> tuple[StoredImage, ...]:
        """Every image of the runtime."""
        return self._runtime.list_images()

    def pull_image(
        self,
        image: str,
        credential: Credential | None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,  # noqa: ARG002 - the interface tells of no progress
    ) -> AttemptResult:
        """Have the runtime pull; it is the runtime that talks to the registry."""
        ref = self._runtime.pull_image(image, credential, timeout_seconds=timeout_seconds)
        if not ref:
            raise ContainerRuntimeError(
                self._runtime.socket, "UNKNOWN", f'imageRef of image "{image}" is not set'
            )
        return AttemptResult(ref)

    def close(self) -> None:
        """End the connection, and with it every pull under way."""
        self._runtime.close()
