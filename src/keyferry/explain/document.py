"""Answers, decisions and explanations as documents for programs, with stable fields and no secrets by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.secrets import MASK, redact
from keyferry.api.meta import format_time
from keyferry.images.answer import missing_documents
from keyferry.show.documents import make_document, reason_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.evidence import Evidence
    from keyferry.explain.explanation import Explanation
    from keyferry.explain.gather import ExplainedImage, ExplainedPod
    from keyferry.images.answer import Answer, Failure, MissingInput
    from keyferry.images.keyring import Credential, Source
    from keyferry.pulls.records.decide import Decision
    from keyferry.workloads.events import PullEvent


def credentials_document(answer: Answer, *, reveal: bool = False) -> dict[str, object]:
    """Return the output of ``keyferry get``; with *reveal*, passwords are not masked."""
    return make_document(
        "ImageCredentials",
        image=answer.image,
        name=answer.name,
        credentials=[credential_document(credential, reveal=reveal) for credential in answer.credentials],
        failures=failures_document(answer.kubelet_failures),
        outcome=str(answer.outcome),
        missing=missing_documents(answer.missing),
    )


def source_document(source: Source) -> dict[str, object]:
    """Return a credential's source as a document."""
    document: dict[str, object] = {"kind": str(source.kind), "name": source.name}
    account = source.service_account
    if account is not None:
        document["serviceAccount"] = {
            "namespace": account.namespace,
            "name": account.name,
            "uid": account.uid,
        }
    return document


def credential_document(credential: Credential, *, reveal: bool = False) -> dict[str, object]:
    """Return a credential as a document; with *reveal*, its password is not masked. An empty one never is."""
    is_masked = credential.password and not reveal
    return {
        "username": credential.username,
        "password": MASK if is_masked else credential.password,
        "key": credential.key,
        "source": source_document(credential.source),
    }


def failures_document(failures: Iterable[Failure]) -> list[dict[str, object]]:
    """Return failures of providers as documents."""
    return [
        {
            "provider": failure.provider,
            "cause": str(failure.error.kind),
            "message": str(failure.error),
        }
        for failure in failures
    ]


def decision_document(decision: Decision, missing: tuple[MissingInput, ...] = ()) -> dict[str, object]:
    """Return a decision as a document with stable fields: the record, the policy and the rule that decided.

    ``mustPull`` is null if the *missing* inputs may change the decision.
    """
    from keyferry.pulls.records.access import UseOutcome, judge_use

    outcome = judge_use(decision, missing)
    return {
        "mustPull": None if outcome is UseOutcome.UNKNOWN else decision.must_pull,
        "outcome": str(outcome),
        "rule": str(decision.rule),
        "policy": decision.policy.name,
        "imageRef": decision.situation.image_ref,
        "reasons": list(map(reason_document, decision.reasons)),
    }


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
        document["access"] = decision_document(facts.decision, answer.missing)
    if facts.check is not None:
        from keyferry.explain.registry import check_document

        document["registry"] = check_document(facts.check)
    return document


def pods_document(pods: Sequence[ExplainedPod]) -> dict[str, object]:
    """Return the output of ``keyferry explain`` for a pod or workload, or for a file with several."""
    notes = [f"{each.pod}: {note}" for each in pods for note in each.notes]
    return make_document("WorkloadExplanation", notes=notes, pods=list(map(_pod_document, pods)))


def _pod_document(pod: ExplainedPod) -> dict[str, object]:
    named = pod.pod
    return {
        "workload": {"kind": str(named.workload.kind), "name": named.workload.name},
        "namespace": named.pod.namespace,
        "pod": named.pod.name,
        "node": named.node_name,
        "serviceAccount": named.pod.service_account_name,
        "problem": pod.problem,
        "events": [event_document(event) for event in pod.events],
        "images": [_image_document(each) for each in pod.images],
    }


def _image_document(image: ExplainedImage) -> dict[str, object]:
    explanation = image.explanation
    return {
        "image": image.image,
        "containers": [{"name": each.name, "role": str(each.role)} for each in image.containers],
        "problem": image.problem,
        "verdict": {
            "outcome": str(image.verdict),
            "text": image.problem if explanation is None else explanation.text,
        },
        "explanation": None if explanation is None else explanation_document(explanation),
    }


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
