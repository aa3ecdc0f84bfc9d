"""An image that is stored in a container runtime or in an OCI layout."""

from __future__ import annotations

from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.manifest import Descriptor
    from keyferry.pulls.platform import Platform

__all__ = ["StoredImage"]


class StoredImage(Value):
    """An image that a target stores: its id, which is the key of its record, and all its names.

    In a layout *id* is the digest of the image's config, as in container runtimes. *name* is the image's name in the
    layout's index, *manifest_digest* the digest of its manifest. A runtime reports neither of them, and no platform
    or layers.
    """

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    is_pinned: bool = False
    name: str = ""
    manifest_digest: str = ""
    platform: Platform | None = None
    layers: tuple[Descriptor, ...] = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """The digest of the first name that has one; empty if none does."""
        return self.digests[0].partition("@")[2] if self.digests else ""
