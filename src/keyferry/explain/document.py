"""Credentials and failures as documents for programs, with stable fields and no secrets by default."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry._core.secrets import MASK
from keyferry.images.answer import missing_documents
from keyferry.show.documents import make_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.answer import Answer, Failure
    from keyferry.images.keyring import Credential, Source


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
