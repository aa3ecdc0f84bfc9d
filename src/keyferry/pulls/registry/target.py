"""What an image name asks a registry for."""

from keyferry._core.values import Value
from keyferry.images.reference import parse_image, registry_of

__all__ = ["Target", "find_target"]


class Target(Value):
    """An image name in the parts that a registry is asked by; the tag is empty if there is a digest alone."""

    image: str
    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def reference(self) -> str:
        """What is asked for: the digest, which cannot change, or else the tag."""
        return self.digest or self.tag

    @property
    def full_name(self) -> str:
        """The image in full, nothing left to defaults."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"


def find_target(image: str) -> Target:
    """Read an image name as the kubelet does; raises ImageNameError."""
    name = parse_image(image)
    registry = registry_of(name.repository)
    return Target(image, registry, name.repository[len(registry) + 1 :], name.tag, name.digest)
