"""An explanation as a document for programs, with stable fields and without secrets."""

from keyferry._core.reasons import Reason, ReasonStage
from keyferry.explain.cures import find_cause
from keyferry.explain.document import credential_document, failures_document
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import check_document
from keyferry.explain.verdict import find_verdict
from keyferry.images.missing import missing_documents
from keyferry.show.documents import make_document, reason_document

__all__ = ["explanation_document"]


def explanation_document(explanation: Explanation) -> dict[str, object]:
    """Return the output of ``keyferry explain``."""
    answer = explanation.answer
    decision = next(reason for reason in answer.reasons if reason.stage is ReasonStage.DECISION)
    document = make_document(
        "ImageExplanation",
        image=answer.image,
        name=answer.name,
        **_verdict(explanation),
        config=explanation.config,
        decision=_decision(explanation, decision),
        missing=missing_documents(answer.missing),
        credentials=[credential_document(credential) for credential in answer.credentials],
        failures=failures_document(answer.kubelet_failures),
        traps=[
            reason_document(reason)
            for reason in (*answer.reasons, *explanation.traps)
            if reason.stage is ReasonStage.TRAP
        ],
        reasons=[
            reason_document(reason)
            for reason in answer.reasons
            if reason.stage not in (ReasonStage.TRAP, ReasonStage.DECISION)
        ],
    )
    return document | _asked(explanation)


def _decision(explanation: Explanation, reason: Reason) -> dict[str, object]:
    """Return what the kubelet does; the lookup decides unless it fails or the pod forbids the pull."""
    if explanation.unreadable is not None or explanation.is_never_pulled:
        outcome = "never" if explanation.unreadable is None else "failed"
        return {"outcome": outcome, "text": find_verdict(explanation).text}
    return {"outcome": str(reason.outcome), "text": reason.text}


def _verdict(explanation: Explanation) -> dict[str, object]:
    verdict, finding = find_verdict(explanation), find_cause(explanation)
    return {
        "verdict": {"about": str(verdict.about), "outcome": str(verdict.outcome), "text": verdict.text},
        "cause": finding.cause,
        "cure": [{"text": cure.text, "lines": list(cure.lines)} for cure in finding.cures],
    }


def _asked(explanation: Explanation) -> dict[str, object]:
    """Return the results of checks that are made only on request."""
    asked: dict[str, object] = {}
    if explanation.decision is not None:
        # Imported here because records import many modules that other uses do not need.
        from keyferry.explain.decision import decision_document

        asked["access"] = decision_document(explanation.decision, explanation.answer.missing)
    if explanation.check is not None:
        asked["registry"] = check_document(explanation.check)
    return asked
