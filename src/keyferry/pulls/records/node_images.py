"""The images of a node, and the search for the one that a pod names."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry._core.json import loads
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import DocumentError, EnvironmentProblem, ImageNameError
from keyferry.images.reference import normalise, parse_image, trim
from keyferry.pulls.records.maintenance import PresentImage

__all__ = ["NodeImage", "NodeImages", "parse_crictl_images"]


class NodeImage(Value):
    """An image of the runtime, with all its names."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def parse_crictl_images(data: bytes, source: str) -> tuple[NodeImage, ...]:
    """Parse the output of ``crictl images -o json``; raise EnvironmentProblem if it is anything else."""
    if not data.strip():
        raise EnvironmentProblem(f"{source}: is empty, expected the output of 'crictl images -o json'")
    try:
        document = loads(data)
    except DocumentError as error:
        raise EnvironmentProblem(f"{source}: {error}") from None
    images = document.get("images") if isinstance(document, dict) else None
    if not isinstance(images, list):
        raise EnvironmentProblem(
            f"{source}: there is no list 'images', expected the output of 'crictl images -o json'"
        )
    return tuple(_read_image(each, f"{source}: images[{at}]") for at, each in enumerate(images))


def _read_image(fields: object, where: str) -> NodeImage:
    if not isinstance(fields, dict) or not isinstance(fields.get("id"), str) or not fields["id"]:
        raise EnvironmentProblem(f"{where}: there is no 'id', expected the output of 'crictl images -o json'")
    return NodeImage(
        id=fields["id"], tags=_names(fields, "repoTags", where), digests=_names(fields, "repoDigests", where)
    )


def _names(fields: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    names = fields.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EnvironmentProblem(f"{where}.{key}: expected a list of names")
    return tuple(names)


class NodeImages:
    """The runtime's references of the images of a node, from the runtime's list or else from the records."""

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
        """Return the reference of *image*; empty if it is absent or not known."""
        if image in self._ids:
            return image
        name = _in_full(image) if self.is_complete else _without_tag(image)
        return self._by_name.get(name, "")


def _in_full(image: str) -> str:
    try:
        name = parse_image(image)
    except ImageNameError:
        return image
    # A digest identifies the image, so a tag before it is ignored.
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.tag}"


def _without_tag(image: str) -> str:
    try:
        return normalise(trim(image))
    except ImageNameError:
        return image
