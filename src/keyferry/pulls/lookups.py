"""What a look at the records gives: one, or all there are, with what could not be believed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from keyferry._values import Value
from keyferry.api.codec import aggregate
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import RecordError

__all__ = ["Listing", "RecordLookup"]

_T = TypeVar("_T")


class Listing(Generic[_T]):
    """What could be read of a folder, in the order of the names, and what could not.

    *doubts* are the keys of values that stand in a file of another name only: nobody looks for them there.
    *outdated* are the values that were in an older version. Nothing else exists only if it *is_complete*: neither
    problems nor folders in the place of files, which nobody lists.
    """

    def __init__(
        self,
        values: tuple[_T, ...],
        problems: tuple[RecordError, ...] = (),
        doubts: Mapping[str, RecordError] = MappingProxyType({}),
        outdated: tuple[_T, ...] = (),
        *,
        is_obstructed: bool = False,
    ) -> None:
        self.values = values
        self.problems = problems
        self.doubts = doubts
        self.outdated = outdated
        self.is_complete = not problems and not is_obstructed

    @property
    def kubernetes_text(self) -> str:
        """All problems as Kubernetes puts them in one text."""
        return aggregate(problem.kubernetes_text for problem in self.problems)


class RecordLookup(Value):
    """What there is about one reference: a record, nothing, or a file that *problem* keeps from being believed.

    A file that names another image counts as nothing, as in the kubelet; *problem* is set then too.
    """

    record: ImagePulledRecord | None = None
    problem: RecordError | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a file that counts, readable or not."""
        return self.record is not None or (self.problem is not None and self.problem.cause != "foreign")

    @property
    def failure(self) -> RecordError | None:
        """Why nothing can be said about the reference, if so."""
        return self.problem if self.exists and self.record is None else None
