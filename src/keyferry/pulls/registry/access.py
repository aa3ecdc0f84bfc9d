"""Find the address of an image's registry once, and use it with several credentials."""

from __future__ import annotations

from keyferry.errors import HttpError, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.registry.client import Registry
from keyferry.pulls.registry.destinations import find_origin
from keyferry.pulls.registry.transport import Origin, Transport

__all__ = ["RegistryAccess"]


class RegistryAccess:
    """The registry of one image; its address is found once and kept for the next credential."""

    def __init__(self, transport: Transport, image: ImageName) -> None:
        self._transport = transport
        self._image = image
        self._origin: Origin | None = None

    def with_credential(self, credential: Credential | None) -> Registry:
        """Return a client of the registry for one credential; raise RegistryError if it cannot be reached."""
        name = self._image.registry
        if self._origin is None:
            try:
                self._origin = find_origin(self._transport, name)
            except HttpError as error:
                raise RegistryError(name, 0, str(error), error.kind) from None
        return Registry(self._transport, self._origin, name, self._image.path, credential)
