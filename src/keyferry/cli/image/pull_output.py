"""Results of pulls as tables and as documents, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry.cli.progress import amount_text, size_text
from keyferry.errors import ImageNameError, ImagePullError, KeyferryError
from keyferry.explain.decision import decision_document
from keyferry.explain.document import failures_document, source_document
from keyferry.images.keyring import Credential
from keyferry.images.reference import trim
from keyferry.pulls.records.access import entry_document
from keyferry.pulls.records.decide import describe_entry
from keyferry.pulls.records.format import short_reference
from keyferry.pulls.request import ALWAYS, Progress, PullAction, PullOutcome
from keyferry.pulls.trial import Attempt, kind_of, most_telling
from keyferry.show.documents import make_document
from keyferry.show.text import fitting_table

Json = dict[str, object]
_HEADER = ("IMAGE", "RESULT", "ID", "CREDENTIAL", "WHY")
_WIDE = ("DIGEST", "SIZE", "TIME", "ATTEMPTS", "MAY USE IT NOW")
_NOTHING = "-"


def outcome_table(outcomes: Sequence[PullOutcome], *, is_wide: bool = False) -> str:
    """Return a table with one row for each image; on a narrow terminal, a paragraph for each."""
    header = (*_HEADER, *_WIDE) if is_wide else _HEADER
    return fitting_table(header, [_row(each) + (_more(each) if is_wide else ()) for each in outcomes])


def _row(outcome: PullOutcome) -> tuple[str, ...]:
    return (
        outcome.image,
        outcome.action,
        short_reference(outcome.image_ref) or _NOTHING,
        _who(outcome),
        why(outcome),
    )


def _who(outcome: PullOutcome) -> str:
    if outcome.action is PullAction.FAILED or not outcome.attempts:
        return _NOTHING
    return "(anonymous)" if outcome.used is None else f"{outcome.used.username} of {outcome.used.source}"


def _more(outcome: PullOutcome) -> tuple[str, ...]:
    recorded = _NOTHING if outcome.recorded is None else describe_entry(outcome.recorded)
    return (
        short_reference(outcome.digest) or _NOTHING,
        size_text(outcome.size) if outcome.size else _NOTHING,
        f"{outcome.seconds:.1f} s",
        str(len(outcome.attempts)),
        recorded,
    )


def why(outcome: PullOutcome) -> str:
    """Return in a few words why the image was pulled, was used, or could not be pulled."""
    if outcome.error is not None:
        return _failure(outcome, outcome.error)
    decision = outcome.decision
    if decision is not None and decision.situation.image_ref:
        return decision.summary
    if outcome.action is PullAction.PRESENT:
        return "it was present, and no records restrict who may use it"
    return "the pull policy is Always" if outcome.pull_policy == ALWAYS else "it was not present"


def _failure(outcome: PullOutcome, error: KeyferryError) -> str:
    """Return the kubelet's word for the failure, and the cause that best explains it."""
    reason = _kubelet_reason(error)
    failed = [attempt for attempt in outcome.attempts if not attempt.worked]
    if not reason or not failed:
        return reason or "see below"
    return f"{reason}: {most_telling(failed).said}"


def kept_lines(reached: Mapping[str, Progress], place: str) -> Iterator[str]:
    """Yield what an interrupted command has fetched, for each image, and that it goes on from there."""
    kept = {image: progress for image, progress in reached.items() if progress.done}
    for image, progress in kept.items():
        yield f"{image}: {amount_text(progress.done, progress.total, ' of ')} are kept in {place}"
    if kept:
        yield "the same command goes on from there"


def outcomes_document(outcomes: Sequence[PullOutcome]) -> Json:
    """Return the results as a document with stable fields."""
    return make_document("ImagePullList", items=list(map(_document, outcomes)))


def _document(outcome: PullOutcome) -> Json:
    problem = outcome.record_problem
    return {
        "image": outcome.image,
        "target": outcome.place,
        "pullPolicy": outcome.pull_policy,
        "result": str(outcome.action),
        "imageRef": outcome.image_ref,
        "digest": outcome.digest,
        "sizeBytes": outcome.size,
        "seconds": round(outcome.seconds, 3),
        "why": why(outcome),
        "credential": _credential(outcome.used),
        "attempts": list(map(_attempt, outcome.attempts)),
        "decision": None if outcome.decision is None else decision_document(outcome.decision),
        "recorded": _recorded(outcome),
        "recordProblem": "" if problem is None else str(problem),
        "failures": [] if outcome.answer is None else failures_document(outcome.answer.failures),
        "error": _error(outcome.error),
    }


def _credential(credential: Credential | None) -> Json | None:
    if credential is None:
        return None
    return {
        "username": credential.username,
        "key": credential.key,
        "source": source_document(credential.source),
    }


def _attempt(attempt: Attempt) -> Json:
    return {
        "credential": _credential(attempt.credential),
        "worked": attempt.worked,
        "renewed": attempt.is_renewed,
        "asked": attempt.was_asked,
        "cause": str(attempt.kind or ""),
        "message": attempt.said,
    }


def _recorded(outcome: PullOutcome) -> Json | None:
    if outcome.recorded is None:
        return None
    try:
        name = trim(outcome.image)
    except ImageNameError:
        name = outcome.image
    return {"imageRef": outcome.image_ref, "name": name, **entry_document(outcome.recorded)}


def _error(error: KeyferryError | None) -> Json | None:
    if error is None:
        return None
    return {"reason": _kubelet_reason(error), "cause": str(kind_of(error)), "message": str(error)}


def _kubelet_reason(error: KeyferryError) -> str:
    return str(error.kubelet_reason) if isinstance(error, ImagePullError) else ""
