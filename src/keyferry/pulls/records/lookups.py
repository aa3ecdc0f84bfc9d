"""What a look at the records gives: one, or all there are, with what could not be believed."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from keyferry._core.values import Value
from keyferry.api.codec import aggregate
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import Kind, RecordError

__all__ = ["Listed", "Listing", "RecordLookup"]

_T = TypeVar("_T")


class Listed(Generic[_T]):
    """One file that could be read: its value, the key that it is about, and whether it is in the present version.

    *stray* says that the file does not have the name that belongs to the key.
    """

    __slots__ = ("is_current", "key", "stray", "value")

    def __init__(
        self, value: _T, key: str, stray: RecordError | None = None, *, is_current: bool = True
    ) -> None:
        self.value = value
        self.key = key
        self.stray = stray
        self.is_current = is_current


class Listing(Generic[_T]):
    """What could be read of a folder, in the order of the names, and what could not.

    *values* are what a kubelet lists, *believed* those that count: unless it *believes_strays*, those in files of the
    right name. *strays* tells of all others, and *doubts* has the keys that stand in such files only. *outdated* are
    to be written anew; what has a file of its own is not written over by a copy under another name. Nothing
    else exists only if it *is_complete*: neither problems nor folders in the place of files, which nobody lists.
    """

    def __init__(
        self,
        entries: Sequence[Listed[_T]] = (),
        problems: tuple[RecordError, ...] = (),
        *,
        believes_strays: bool = False,
        is_obstructed: bool = False,
    ) -> None:
        placed = {each.key for each in entries if each.stray is None}
        strays = [(each.key, each.stray) for each in entries if each.stray is not None]
        self.values = tuple(each.value for each in entries)
        self.believed = tuple(each.value for each in entries if believes_strays or each.stray is None)
        self.strays = tuple(stray for _, stray in strays)
        self.doubts = {key: stray for key, stray in strays if key not in placed}
        self.outdated = tuple(
            each.value
            for each in entries
            if not each.is_current and (each.stray is None or each.key not in placed)
        )
        self.problems = problems
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
        return self.record is not None or (self.problem is not None and self.problem.kind is not Kind.FOREIGN)

    @property
    def failure(self) -> RecordError | None:
        """Why nothing can be said about the reference, if so."""
        return self.problem if self.exists and self.record is None else None
