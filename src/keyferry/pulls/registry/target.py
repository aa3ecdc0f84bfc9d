"""Split an image name into the parts of a request to its registry."""

from keyferry._core.values import Value
from keyferry.images.reference import parse_image, registry_of

__all__ = ["Target", "find_target"]


class Target(Value):
    """The parts of an image name; the tag is empty if the name has only a digest."""

    image: str
    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def reference(self) -> str:
        """The reference to request: the digest if there is one, else the tag."""
        return self.digest or self.tag

    @property
    def full_name(self) -> str:
        """The full name of the image, with the registry and the tag or digest."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"


def find_target(image: str) -> Target:
    """Parse an image name as the kubelet does; raise ImageNameError if it is invalid."""
    name = parse_image(image)
    registry = registry_of(name.repository)
    return Target(image, registry, name.repository[len(registry) + 1 :], name.tag, name.digest)
