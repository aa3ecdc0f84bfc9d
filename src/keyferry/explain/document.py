"""Answers, decisions and explanations as documents for programs, with stable fields and no secrets by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.secrets import MASK, redact
from keyferry._core.user_info import hide_user_info
from keyferry.api.meta import format_instant, format_time
from keyferry.errors import KeyferryError, PluginExitError, PluginNotFoundError
from keyferry.images.answer import missing_documents
from keyferry.show.documents import make_document, reason_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.cluster.causes import CommonCause, WaitingPods
    from keyferry.explain.evidence import Evidence
    from keyferry.explain.explanation import Cure, Explanation, Facts
    from keyferry.explain.gather import ExplainedImage, ExplainedPod
    from keyferry.images.answer import Answer, Failure, MissingInput
    from keyferry.images.keyring import Credential, Source
    from keyferry.pulls.records.decide import Decision
    from keyferry.workloads.events import PullEvent
    from keyferry.workloads.listing import PodSelection


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
    """Return failures of providers as documents; what is not known of one has no field."""
    return [
        {
            "provider": failure.provider,
            "cause": str(failure.error.kind),
            "message": str(failure.error),
            **_run_document(failure.error),
        }
        for failure in failures
    ]


def _run_document(error: KeyferryError) -> dict[str, object]:
    if isinstance(error, PluginExitError):
        return {"exitStatus": error.status, "stderr": error.stderr_tail}
    if isinstance(error, PluginNotFoundError) and error.folder_changed_ns is not None:
        return {"folderChanged": format_time(error.folder_changed_ns)}
    return {}


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
        cure=cure_documents(explanation.cures),
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
    document["provenance"] = _provenance(facts)
    if facts.half is not None:
        document["node"] = facts.half.document
    if facts.decision is not None:
        document["access"] = decision_document(facts.decision, answer.missing)
    if facts.check is not None:
        from keyferry.explain.registry import check_document

        document["registry"] = check_document(facts.check)
    return document


def _provenance(facts: Facts) -> dict[str, object]:
    """Return who told each part of the explanation: what is here, or the pod's node from afar."""
    half, here = facts.half, "here"
    node = here if half is None else "node"
    return {
        "evidence": here,
        "pullSecrets": here,
        "serviceAccount": here,
        "config": node,
        "failures": node,
        "credentials": [
            here if each.source.secret is not None or half is None else "node"
            for each in facts.answer.credentials
        ],
    }


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


def waiting_document(found: WaitingPods) -> dict[str, object]:
    """Return the output of ``keyferry explain -A``; namespaces of which all are meant are an empty text."""
    from keyferry.explain.cluster.text import verdict_text

    return make_document(
        "WaitingPods",
        server=found.server,
        time=time_text(found.now),
        selection=selection_document(found.selection),
        verdict={"outcome": str(found.verdict), "text": verdict_text(found)},
        pods=found.total,
        waiting=found.waiting,
        causes=list(map(_cause_document, found.causes)),
        notes=list(found.notes),
    )


def selection_document(selection: PodSelection) -> dict[str, object]:
    """Return which pods are meant."""
    return {
        "namespace": selection.namespace,
        "labelSelector": selection.label_selector,
        "fieldSelector": selection.field_selector,
        "node": selection.node,
    }


def _cause_document(cause: CommonCause) -> dict[str, object]:
    namespace, _, name = cause.example.partition("/")
    return {
        "id": cause.id,
        "pods": cause.pods,
        "sure": cause.is_sure,
        "case": str(cause.outcome),
        "text": cause.text,
        "summary": cause.summary,
        "cause": cause.cause,
        "cure": cure_documents(cause.cures),
        "registry": cause.registry,
        "images": list(map(hide_user_info, cause.images)),
        "namespaces": list(cause.namespaces),
        "nodes": list(cause.nodes),
        "since": time_text(cause.since),
        "example": {"namespace": namespace, "pod": name, "command": cause.command},
        "examples": list(cause.examples),
        "said": cause.said,
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
            "time": time_text(attempt.at),
            "failure": None
            if failure is None
            else {
                "kind": str(failure.kind),
                "status": failure.status,
                "host": failure.host,
                "text": failure.text,
            },
            "pulled": attempt.was_pulled,
            "runningSince": time_text(attempt.since),
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
        "changes": [
            {
                "what": change.what,
                "how": change.how,
                # A change may be in the same second as the attempt.
                "time": format_instant(int(change.at * 1000) * 1_000_000),
                "delaySeconds": change.delay_seconds,
            }
            for change in evidence.changes
        ],
        "kubeletStarted": time_text(evidence.started),
        "unread": [
            {
                "path": file.path,
                "changed": time_text(file.changed),
                "started": time_text(file.started),
                "kind": str(file.kind),
                "certain": file.is_certain,
            }
            for file in evidence.unread
        ],
    }


def cure_documents(cures: Iterable[Cure]) -> list[dict[str, object]]:
    """Return cures as documents."""
    return [{"text": cure.text, "lines": list(cure.lines)} for cure in cures]


def time_text(at: float | None) -> str | None:
    """Return an instant in seconds since 1970 as documents have it; None for one that is not known."""
    return None if at is None else format_time(int(at) * 1_000_000_000)


def _decision(explanation: Explanation, reason: Reason) -> dict[str, object]:
    """Return what a kubelet does that reads these files now; it pulls nothing if the pod's own settings forbid it."""
    facts = explanation.facts
    if facts.unreadable is not None or facts.is_never_pulled:
        outcome = "never" if facts.unreadable is None else "failed"
        return {"outcome": outcome, "text": explanation.text}
    return {"outcome": str(reason.outcome), "text": reason.text}
