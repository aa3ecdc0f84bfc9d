"""What crashes and time leave behind: intents without a process, records without an image."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import KeyferryError, RecordError
from keyferry.pulls.records.lookups import Listing

__all__ = ["PresentImage", "Pruning", "Recovery", "match_intents", "split_gone_records"]


class PresentImage(Protocol):
    """An image that the runtime has, with all its names."""

    @property
    def id(self) -> str:
        """The runtime's reference to it."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its names with tags."""

    @property
    def digests(self) -> tuple[str, ...]:
        """Its names with digests."""


class Recovery(Value):
    """What became of the intents that a crash left: pairs of image and reference, images that stay, problems."""

    recovered: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[KeyferryError, ...] = ()


class Pruning(Value):
    """Which records went, or would go, which stay, and which files could not be read and stay too."""

    removed: tuple[ImagePulledRecord, ...] = ()
    kept: tuple[ImagePulledRecord, ...] = ()
    problems: tuple[RecordError, ...] = ()


def match_intents(waiting: set[str], present: Iterable[PresentImage]) -> Iterator[tuple[str, str]]:
    """Which image each intent turns out to be, if it is there; names are compared as they are written."""
    for each in present:
        for image in sorted(waiting.intersection((*each.tags, *each.digests))):
            yield image, each.id


def split_gone_records(
    listing: Listing[ImagePulledRecord], present: frozenset[str], until_ns: int
) -> Pruning:
    """Part the records of images that are gone from all others; a young record always stays."""
    removed: list[ImagePulledRecord] = []
    kept: list[ImagePulledRecord] = []
    for record in listing.believed:
        is_gone = record.image_ref not in present and record.last_updated_ns < until_ns
        (removed if is_gone else kept).append(record)
    return Pruning(tuple(removed), tuple(kept), listing.problems)
