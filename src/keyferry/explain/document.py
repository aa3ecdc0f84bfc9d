"""An answer and its reasons as documents for programs, with stable fields and no secrets by default."""

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.secrets import MASK
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential, Source
from keyferry.images.missing import missing_documents
from keyferry.show.documents import make_document, reason_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from keyferry.images.answer import Failure


def credentials_document(answer: Answer, *, reveal: bool = False) -> dict[str, object]:
    """Return the output of ``keyferry get``; with *reveal*, passwords are not masked."""
    return make_document(
        "ImageCredentials",
        image=answer.image,
        name=answer.name,
        credentials=[_credential(credential, reveal=reveal) for credential in answer.credentials],
        failures=failures_document(answer.kubelet_failures),
        outcome=str(answer.outcome),
        missing=missing_documents(answer.missing),
    )


def explanation_document(
    answer: Answer,
    *,
    config: dict[str, object],
    registry: dict[str, object] | None = None,
    access: dict[str, object] | None = None,
    traps: tuple[Reason, ...] = (),
) -> dict[str, object]:
    """Return the output of ``keyferry explain``.

    *registry* is the result of a check with the registry, if one was made; *access* is the decision
    whether an image on the node may be used, if it was requested; *traps* are added to those of the answer.
    """
    decision = next(reason for reason in answer.reasons if reason.stage is ReasonStage.DECISION)
    document: dict[str, object] = make_document(
        "ImageExplanation",
        image=answer.image,
        name=answer.name,
        config=config,
        decision={"outcome": str(decision.outcome), "text": decision.text},
        missing=missing_documents(answer.missing),
        credentials=[_credential(credential, reveal=False) for credential in answer.credentials],
        failures=failures_document(answer.kubelet_failures),
        traps=[
            reason_document(reason)
            for reason in (*answer.reasons, *traps)
            if reason.stage is ReasonStage.TRAP
        ],
        reasons=[
            reason_document(reason)
            for reason in answer.reasons
            if reason.stage not in (ReasonStage.TRAP, ReasonStage.DECISION)
        ],
    )
    asked = {"access": access, "registry": registry}
    return document | {name: value for name, value in asked.items() if value is not None}


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


def _credential(credential: Credential, *, reveal: bool) -> dict[str, object]:
    return {
        "username": credential.username,
        "password": credential.password if reveal else MASK,
        "key": credential.key,
        "source": source_document(credential.source),
    }


def failures_document(failures: "Iterable[Failure]") -> list[dict[str, object]]:
    """Return failures of providers as documents."""
    return [
        {
            "provider": failure.provider,
            "cause": str(failure.error.kind),
            "message": str(failure.error),
        }
        for failure in failures
    ]
