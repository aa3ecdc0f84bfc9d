"""The images that a node has, and which of them a pod's image is."""

from collections.abc import Iterable

from keyferry._core.json import loads
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import DocumentError, EnvironmentProblem, ImageNameError
from keyferry.images.reference import normalise, parse_image, trim
from keyferry.pulls.records.maintenance import PresentImage

__all__ = ["NodeImage", "NodeImages", "parse_crictl_images"]


class NodeImage(Value):
    """An image that the runtime has, with all its names."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def parse_crictl_images(data: bytes, source: str) -> tuple[NodeImage, ...]:
    """The images in what ``crictl images -o json`` prints; EnvironmentProblem if it is something else."""
    try:
        document = loads(data)
    except DocumentError as error:
        raise EnvironmentProblem(f"{source}: {error}") from None
    images = document.get("images") if isinstance(document, dict) else None
    if not isinstance(images, list):
        raise EnvironmentProblem(
            f"{source}: it has no list 'images', expected what 'crictl images -o json' prints"
        )
    return tuple(_read_image(each, f"{source}: images[{at}]") for at, each in enumerate(images))


def _read_image(fields: object, where: str) -> NodeImage:
    if not isinstance(fields, dict) or not isinstance(fields.get("id"), str) or not fields["id"]:
        raise EnvironmentProblem(f"{where}: it has no 'id', expected what 'crictl images -o json' prints")
    return NodeImage(fields["id"], _names(fields, "repoTags", where), _names(fields, "repoDigests", where))


def _names(fields: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    names = fields.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EnvironmentProblem(f"{where}.{key}: it is not a list of names")
    return tuple(names)


class NodeImages:
    """Finds the runtime's reference to a pod's image, by what the runtime says, else by what records say."""

    def __init__(
        self, records: Iterable[ImagePulledRecord], images: Iterable[PresentImage] | None = None
    ) -> None:
        self.is_complete = images is not None
        self._by_name: dict[str, str] = {}
        self._ids: set[str] = set()
        # Oldest first, so that of several records under one name the latest counts.
        for record in sorted(records, key=lambda each: each.last_updated_ns):
            self._ids.add(record.image_ref)
            self._by_name |= dict.fromkeys(map(_without_tag, record.credential_mapping), record.image_ref)
        if images is not None:
            self._by_name, self._ids = {}, set()
            for image in images:
                self._ids.add(image.id)
                self._by_name |= dict.fromkeys(map(_in_full, (*image.tags, *image.digests)), image.id)

    def find(self, image: str) -> str:
        """The reference of *image*; empty if it is not there, or nobody knows."""
        if image in self._ids:
            return image
        name = _in_full(image) if self.is_complete else _without_tag(image)
        return self._by_name.get(name, "")


def _in_full(image: str) -> str:
    try:
        name = parse_image(image)
    except ImageNameError:
        return image
    # A digest says which image it is, whatever tag stands before it.
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.tag}"


def _without_tag(image: str) -> str:
    try:
        return normalise(trim(image))
    except ImageNameError:
        return image
