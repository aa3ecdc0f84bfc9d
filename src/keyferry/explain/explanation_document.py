"""An explanation as a document for programs, with stable fields and without secrets."""

from __future__ import annotations

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.secrets import redact
from keyferry.api.meta import format_time
from keyferry.explain.document import credential_document, failures_document
from keyferry.explain.evidence import Evidence
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import check_document
from keyferry.images.answer import missing_documents
from keyferry.show.documents import make_document, reason_document
from keyferry.workloads.events import PullEvent

__all__ = ["event_document", "explanation_document"]


def explanation_document(explanation: Explanation) -> dict[str, object]:
    """Return the output of ``keyferry explain``."""
    facts = explanation.facts
    answer = facts.answer
    decision = next(reason for reason in answer.reasons if reason.stage is ReasonStage.DECISION)
    document = make_document(
        "ImageExplanation",
        image=answer.image,
        name=answer.name,
        verdict={
            "about": str(explanation.about),
            "outcome": str(explanation.verdict),
            "case": str(explanation.outcome),
            "text": explanation.text,
        },
        cause=explanation.cause,
        cure=[{"text": cure.text, "lines": list(cure.lines)} for cure in explanation.cures],
        notes=list(explanation.notes),
        evidence=_evidence(facts.evidence),
        config=facts.config,
        decision=_decision(explanation, decision),
        missing=missing_documents(answer.missing),
        # A token may stand in the place of the user name.
        credentials=[
            {**credential_document(credential), "username": redact(credential.username)}
            for credential in answer.credentials
        ],
        failures=failures_document(answer.kubelet_failures),
        traps=[
            reason_document(reason)
            for reason in (*answer.reasons, *facts.traps)
            if reason.stage is ReasonStage.TRAP
        ],
        reasons=[
            reason_document(reason)
            for reason in answer.reasons
            if reason.stage not in (ReasonStage.TRAP, ReasonStage.DECISION)
        ],
    )
    if facts.decision is not None:
        from keyferry.explain.decision import decision_document

        document["access"] = decision_document(facts.decision, answer.missing)
    if facts.check is not None:
        document["registry"] = check_document(facts.check)
    return document


def event_document(event: PullEvent) -> dict[str, object]:
    """Return an event as a document."""
    return {
        "time": event.time,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": event.count,
        "container": event.container,
    }


def _evidence(evidence: Evidence) -> dict[str, object]:
    """Return what happened; a time that is not known is null."""
    attempt = evidence.last_attempt
    failure = attempt.failure
    return {
        "lastAttempt": {
            "outcome": str(attempt.kind),
            "time": _time(attempt.at),
            "failure": None
            if failure is None
            else {
                "kind": str(failure.kind),
                "status": failure.status,
                "host": failure.host,
                "text": failure.text,
            },
            "pulled": attempt.was_pulled,
            "runningSince": _time(attempt.since),
        },
        "states": [
            {
                "container": state.name,
                "state": str(state.kind),
                "reason": state.reason,
                "message": state.message,
            }
            for state in evidence.states
        ],
        "events": [event_document(event) for event in evidence.events],
        "changes": [{"what": change.what, "time": _time(change.at)} for change in evidence.changes],
        "unread": [
            {
                "path": file.path,
                "changed": _time(file.changed),
                "started": _time(file.started),
                "certain": file.is_certain,
            }
            for file in evidence.unread
        ],
    }


def _time(at: float | None) -> str | None:
    return None if at is None else format_time(int(at) * 1_000_000_000)


def _decision(explanation: Explanation, reason: Reason) -> dict[str, object]:
    """Return what a kubelet does that reads these files now; it pulls nothing if the pod's own settings forbid it."""
    facts = explanation.facts
    if facts.unreadable is not None or facts.is_never_pulled:
        outcome = "never" if facts.unreadable is None else "failed"
        return {"outcome": outcome, "text": explanation.text}
    return {"outcome": str(reason.outcome), "text": reason.text}
