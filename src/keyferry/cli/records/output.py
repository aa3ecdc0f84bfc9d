"""Records as text and as documents; hashes are shortened unless they are revealed."""

from __future__ import annotations

from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord
from keyferry.api.meta import NO_TIME_NS, format_instant
from keyferry.errors import RecordError
from keyferry.pulls.records.format import shorten

Json = dict[str, object]
_SHORT = 19


def record_document(record: ImagePulledRecord, *, reveal: bool = False) -> Json:
    """Return a record as a document with stable fields."""
    return {
        "imageRef": record.image_ref,
        "lastUpdatedTime": time_text(record) or None,
        "names": [
            {"name": name, **entry_document(entry, reveal=reveal)}
            for name, entry in sorted(record.credential_mapping.items())
        ],
    }


def entry_document(entry: ImagePullCredentials, *, reveal: bool = False) -> Json:
    """Return who may use an image under one name, as a document."""
    return {
        "everyPodOfTheNode": entry.node_pods_accessible,
        "secrets": [
            {
                "namespace": secret.namespace,
                "name": secret.name,
                "uid": secret.uid,
                "credentialHash": secret.credential_hash if reveal else shorten(secret.credential_hash),
            }
            for secret in entry.kubernetes_secrets
        ],
        "serviceAccounts": [
            {"namespace": account.namespace, "name": account.name, "uid": account.uid}
            for account in entry.kubernetes_service_accounts
        ],
    }


def entry_lines(entry: ImagePullCredentials, *, reveal: bool = False) -> list[str]:
    """Return who may use an image under one name, one line for each."""
    if entry.node_pods_accessible:
        return ["every pod of the node: the image was pulled anonymously or with credentials of the node"]
    lines = [
        f"secret {secret.namespace}/{secret.name} (uid {secret.uid or 'none'}, credential "
        f"{(secret.credential_hash if reveal else shorten(secret.credential_hash)) or 'unknown'})"
        for secret in entry.kubernetes_secrets
    ]
    lines += [
        f"service account {account.namespace}/{account.name} (uid {account.uid or 'none'})"
        for account in entry.kubernetes_service_accounts
    ]
    return lines or ["nobody: every use is verified"]


def problem_document(problem: RecordError) -> Json:
    """Return a file that is not used, and why, as a document."""
    return {"file": problem.path, "cause": str(problem.kind), "message": problem.message}


def time_text(record: ImagePulledRecord) -> str:
    """Return the time of a record's last change; empty if it has none."""
    return "" if record.last_updated_ns == NO_TIME_NS else format_instant(record.last_updated_ns)


def short_reference(image_ref: str) -> str:
    """Return a digest in the short form that tools usually show; any other reference unchanged."""
    return image_ref[:_SHORT] if image_ref.startswith("sha256:") else image_ref
