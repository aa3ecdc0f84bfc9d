"""The results of lookups and listings of records, with the problems of files that could not be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.type_forms import Generic, T
from keyferry._core.values import Value
from keyferry.api.codec import aggregate
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.errors import Kind, RecordError

__all__ = ["Listed", "Listing", "RecordLookup"]


class Listed(Generic[T]):
    """One readable file: its value, the key that it is about, and whether it is in the current API version.

    *stray* is an error if the name of the file is not that of the key.
    """

    __slots__ = ("is_current", "key", "stray", "value")

    def __init__(
        self, value: T, key: str, stray: RecordError | None = None, *, is_current: bool = True
    ) -> None:
        self.value = value
        self.key = key
        self.stray = stray
        self.is_current = is_current


class Listing(Generic[T]):
    """The values of a folder's readable files, in the order of the file names, and the problems of the others.

    *values* are those that a kubelet lists. *believed* are those that count: the ones in files of the right name or,
    with *believes_strays*, all. *strays* are the errors of files with a wrong name, and *doubts* are these errors by
    key, for keys that occur only in such files. *outdated* are the values to rewrite; a file with a wrong name is left
    out if the file with the right name exists. *is_complete* is False if other entries may exist: there are problems,
    or folders with the names of files.
    """

    def __init__(
        self,
        entries: Sequence[Listed[T]] = (),
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
        """All problems in one text, as Kubernetes writes them."""
        return aggregate(problem.kubernetes_text for problem in self.problems)


class RecordLookup(Value):
    """The lookup of one reference: a record, none, or a *problem* with its file.

    A file that names another image counts as no record, as in the kubelet; *problem* is set in that case too.
    """

    record: ImagePulledRecord | None = None
    problem: RecordError | None = None

    @property
    def exists(self) -> bool:
        """Whether the reference has a file, readable or not; a file that names another image does not count."""
        return self.record is not None or (self.problem is not None and self.problem.kind is not Kind.FOREIGN)

    @property
    def failure(self) -> RecordError | None:
        """The problem, if it prevents a decision about the reference, or None."""
        return self.problem if self.exists and self.record is None else None
