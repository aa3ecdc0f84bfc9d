"""Find intents whose process has ended, and records whose image no longer exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyferry._core.type_forms import Protocol
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import KeyferryError, RecordError
from keyferry.pulls.records.lookups import Listing

__all__ = ["PresentImage", "Pruning", "Recovery", "match_intents", "split_gone_records"]


class PresentImage(Protocol):
    """An image of the runtime, with all its names."""

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
    """The result of a recovery: pairs of image and reference, images whose intents remain, and problems."""

    recovered: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[KeyferryError, ...] = ()


class Pruning(Value):
    """The result of pruning: the removed records, the kept ones, and problems of files that are kept too."""

    removed: tuple[ImagePulledRecord, ...] = ()
    kept: tuple[ImagePulledRecord, ...] = ()
    problems: tuple[RecordError, ...] = ()


def match_intents(waiting: set[str], present: Iterable[PresentImage]) -> Iterator[tuple[str, str]]:
    """Yield each image of *waiting* that is present, with its reference; names are compared as text."""
    for each in present:
        for image in sorted(waiting.intersection((*each.tags, *each.digests))):
            yield image, each.id


def split_gone_records(
    listing: Listing[ImagePulledRecord], present: frozenset[str], until_ns: int
) -> Pruning:
    """Separate the records of images that no longer exist from the others; later ones than *until_ns* are kept."""
    removed: list[ImagePulledRecord] = []
    kept: list[ImagePulledRecord] = []
    for record in listing.believed:
        is_gone = record.image_ref not in present and record.last_updated_ns < until_ns
        (removed if is_gone else kept).append(record)
    return Pruning(removed=tuple(removed), kept=tuple(kept), problems=listing.problems)
