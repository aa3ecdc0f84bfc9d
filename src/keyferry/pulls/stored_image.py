"""An image that is there, in a container runtime or in a layout."""

from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.manifest import Descriptor
    from keyferry.pulls.platform import Platform

__all__ = ["StoredImage"]


class StoredImage(Value):
    """An image that a target has: its id, which records are kept under, and all its names.

    In a layout the *id* is the digest of its config, as container runtimes have it. *name* is what tools know it by in
    the layout, *manifest_digest* its manifest there; a runtime tells neither, nor platform and layers.
    """

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    is_pinned: bool = False
    name: str = ""
    manifest_digest: str = ""
    platform: "Platform | None" = None
    layers: "tuple[Descriptor, ...]" = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """The first digest among its names; empty if it has none."""
        return self.digests[0].partition("@")[2] if self.digests else ""
