"""Whether a pod may use an image on the node, as text for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry.images.answer import MissingInput
from keyferry.pulls.records.access import UseOutcome, judge_use
from keyferry.pulls.records.decide import Decision
from keyferry.show.documents import reason_document

__all__ = ["decision_document", "decision_lines"]


def decision_document(decision: Decision, missing: tuple[MissingInput, ...] = ()) -> dict[str, object]:
    """Return a decision as a document with stable fields: the record, the policy and the rule that decided.

    ``mustPull`` is null if the *missing* inputs may change the decision.
    """
    outcome = judge_use(decision, missing)
    return {
        "mustPull": None if outcome is UseOutcome.UNKNOWN else decision.must_pull,
        "outcome": str(outcome),
        "rule": str(decision.rule),
        "policy": decision.policy.name,
        "imageRef": decision.situation.image_ref,
        "reasons": list(map(reason_document, decision.reasons)),
    }


def decision_lines(decision: Decision, missing: tuple[MissingInput, ...] = ()) -> Iterator[str]:
    """Yield the decision in one line, then its reasons; the *missing* inputs may change it."""
    if judge_use(decision, missing) is UseOutcome.UNKNOWN:
        why = "; ".join(map(str, missing))
        yield printable(f"cannot tell whether this pod may use the image on the node: {why}")
    else:
        yield _verdict(decision)
    for reason in decision.reasons[:-1]:
        yield f"- {reason.stage} {printable(reason.subject)}: {printable(reason.text)}"


def _verdict(decision: Decision) -> str:
    why = printable(decision.summary)
    if not decision.situation.image_ref:
        return f"the image must be pulled: {why}"
    if decision.error is not None:
        return f"the container does not start: {why}"
    if decision.must_pull:
        return f"the image is on the node, but this pod must pull it to verify its access: {why}"
    return f"the image is on the node, and this pod may use it without a pull: {why}"
