"""An answer and its reasons, for programs: JSON or YAML with stable fields and no secret unless asked."""

from keyferry._secret import MASK
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential
from keyferry.images.reasons import Reason

API_VERSION = "keyferry.dev/v1alpha1"


def credentials_document(answer: Answer, *, reveal: bool = False) -> dict[str, object]:
    """What ``keyferry get`` says."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ImageCredentials",
        "image": answer.image,
        "name": answer.name,
        "credentials": [_credential(credential, reveal=reveal) for credential in answer.credentials],
        "failures": _failures(answer),
    }


def explanation_document(
    answer: Answer, *, config: dict[str, object], reveal: bool = False
) -> dict[str, object]:
    """What ``keyferry explain`` says."""
    decision = next(reason for reason in answer.reasons if reason.stage == "decision")
    return {
        "apiVersion": API_VERSION,
        "kind": "ImageExplanation",
        "image": answer.image,
        "name": answer.name,
        "config": config,
        "decision": {"outcome": decision.outcome, "text": decision.text},
        "credentials": [_credential(credential, reveal=reveal) for credential in answer.credentials],
        "failures": _failures(answer),
        "traps": [_reason(reason) for reason in answer.reasons if reason.stage == "trap"],
        "reasons": [_reason(reason) for reason in answer.reasons if reason.stage not in ("trap", "decision")],
    }


def _credential(credential: Credential, *, reveal: bool) -> dict[str, object]:
    source: dict[str, object] = {"kind": credential.source.kind, "name": credential.source.name}
    account = credential.source.service_account
    if account is not None:
        source["serviceAccount"] = {"namespace": account.namespace, "name": account.name, "uid": account.uid}
    return {
        "username": credential.username,
        "password": credential.password if reveal else MASK,
        "key": credential.key,
        "source": source,
    }


def _failures(answer: Answer) -> list[dict[str, object]]:
    return [
        {
            "provider": failure.provider,
            "cause": getattr(failure.error, "cause", "service-account"),
            "message": str(failure.error),
        }
        for failure in answer.failures
    ]


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "stage": reason.stage,
        "subject": reason.subject,
        "outcome": reason.outcome,
        "text": reason.text,
        "facts": reason.facts,
    }
