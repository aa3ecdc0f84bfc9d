"""Problems in the content of a valid record: names, credentials, times and the number of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord
from keyferry.api.meta import NO_TIME_NS, format_instant
from keyferry.errors import ImageNameError, Problem
from keyferry.images.reference import trim
from keyferry.pulls.records.decide import MOST_ADDED

_SLACK_NS = 3_600 * 1_000_000_000
_HASH = re.compile(r"[0-9a-f]{64}")


def check_record(record: ImagePulledRecord, now_ns: int) -> Iterator[Problem]:
    """Yield the problems of one record, without quoting hashes."""
    if record.last_updated_ns == NO_TIME_NS:
        yield Problem(
            "lastUpdatedTime", "it is missing: the next garbage collection removes the record", code="KF423"
        )
    elif record.last_updated_ns > now_ns + _SLACK_NS:
        shown = format_instant(record.last_updated_ns)
        yield Problem("lastUpdatedTime", f"{shown} is in the future", code="KF423")
    if not record.credential_mapping:
        message = "it names no credentials: every access to this image is verified"
        yield Problem("credentialMapping", message, code="KF425")
    for name, entry in record.credential_mapping.items():
        yield from _check_name(name)
        yield from _check_entry(f"credentialMapping[{name!r}]", entry)


def _check_name(name: str) -> Iterator[Problem]:
    where = f"credentialMapping[{name!r}]"
    try:
        trimmed = trim(name)
    except ImageNameError as error:
        yield Problem(where, error.message, code="KF424")
        return
    if trimmed != name:
        message = f"it has a tag or digest, so it is never found; expected {trimmed!r}"
        yield Problem(where, message, code="KF424")


def _check_entry(where: str, entry: ImagePullCredentials) -> Iterator[Problem]:
    if entry.is_empty:
        yield Problem(
            where, "it names no credentials: every access under this name is verified", code="KF425"
        )
    if entry.node_pods_accessible and (entry.kubernetes_secrets or entry.kubernetes_service_accounts):
        message = "every pod may use the image, so the secrets and accounts are ignored"
        yield Problem(where, message, code="KF428")
    if len(entry.kubernetes_secrets) >= MOST_ADDED:
        message = f"it has {len(entry.kubernetes_secrets)} secrets; from {MOST_ADDED} on, changed ones are not trusted"
        yield Problem(where, message, code="KF427")
    for at, secret in enumerate(entry.kubernetes_secrets):
        if not _HASH.fullmatch(secret.credential_hash):
            found = "another value" if secret.credential_hash else "nothing"
            message = f"found {found}, expected a SHA-256 in hexadecimal"
            yield Problem(f"{where}.kubernetesSecrets[{at}].credentialHash", message, code="KF426")
