"""The explanation of one image: outcome, verdict, cause and cures, computed once from the facts."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value
from keyferry.explain.facts import Facts
from keyferry.explain.registry import PullVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.reasons.nearness import Miss

__all__ = ["Cure", "Explanation", "LikelyCause", "Outcome", "Subject"]


class Outcome(StrEnum):
    """All that can be said of an image; each has its exit code."""

    RUNS = "runs"  # it was pulled, or is on the node and may be used
    FOUND = "found"  # a kubelet that reads these files now would have a credential, or can pull
    OTHER_REASON = "other-reason"  # fails, for a reason that is no credential
    NO_CREDENTIAL = "no-credential"  # fails, and no credential is found
    PLUGIN_FAILED = "plugin-failed"  # the same, since a plugin failed
    REFUSED = "refused"  # fails: the registry refuses what is found
    NOT_KNOWN_YET = "not-known-yet"  # fails: the kubelet does not know yet what is found
    CHANGED = "changed"  # failed, and something has changed since
    UNEXPLAINED = "unexplained"  # fails, and what is known does not explain it
    NOT_TRIED = "not-tried"
    UNKNOWN = "unknown"

    @property
    def verdict(self) -> PullVerdict:
        """The outcome as yes, no or unknown."""
        return _VERDICTS.get(self, PullVerdict.NO)


_VERDICTS = {
    Outcome.RUNS: PullVerdict.YES,
    Outcome.FOUND: PullVerdict.YES,
    Outcome.CHANGED: PullVerdict.UNKNOWN,
    Outcome.NOT_TRIED: PullVerdict.UNKNOWN,
    Outcome.UNKNOWN: PullVerdict.UNKNOWN,
}


class Subject(StrEnum):
    """The question that a verdict answers: has the kubelet a credential, can the image be pulled, or can it be used."""

    CREDENTIAL = "credential"
    PULL = "pull"
    USE = "use"


class Cure(Value):
    """A change that helps, and the lines to paste for it: commands, or lines of a file."""

    text: str
    lines: tuple[str, ...] = ()


class LikelyCause(Value):
    """Why no credential is found, and what cures it; *miss* is the near miss that it is about.

    If *is_certain*, it alone explains that there is none, whatever else is not known.
    """

    cause: str
    cures: tuple[Cure, ...] = ()
    miss: Miss | None = None
    is_certain: bool = True


class Explanation(Value):
    """What is said of an image: the *text* of the verdict has the *cause* in it, if there is one.

    *notes* are facts that matter beside it, the most important first.
    """

    facts: Facts
    outcome: Outcome
    text: str
    cause: str = ""
    cures: tuple[Cure, ...] = ()
    notes: tuple[str, ...] = ()
    miss: Miss | None = None
    about: Subject = Subject.PULL

    @property
    def verdict(self) -> PullVerdict:
        """The outcome as yes, no or unknown."""
        return self.outcome.verdict

    @property
    def told(self) -> tuple[object, ...]:
        """What people are told of it; images for which it is the same are one block."""
        # Without a cause the text has it; with one, the text may also tell when.
        return self.outcome, self.cause or self.text, self.cures
