"""Merge new credentials into a record, by their coordinates; access for every pod replaces all other credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from keyferry._core.values import replace
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    class _Placed(Protocol):
        @property
        def coordinates(self) -> tuple[str, str, str]: ...

    _P = TypeVar("_P", bound=_Placed)

__all__ = ["merge_credentials", "merge_secrets", "merge_service_accounts", "new_record"]


def merge_secrets(
    recorded: Iterable[ImagePullSecret], new: Iterable[ImagePullSecret]
) -> tuple[tuple[ImagePullSecret, ...], bool]:
    """Return both lists merged, and whether that changed the recorded one; a new hash replaces the old one."""
    return _merge(recorded, new)


def merge_service_accounts(
    recorded: Iterable[ImagePullServiceAccount], new: Iterable[ImagePullServiceAccount]
) -> tuple[tuple[ImagePullServiceAccount, ...], bool]:
    """Return both lists merged, and whether that changed the recorded one."""
    return _merge(recorded, new)


def _merge(recorded: Iterable[_P], new: Iterable[_P]) -> tuple[tuple[_P, ...], bool]:
    recorded = tuple(recorded)
    known = {each.coordinates: each for each in recorded}
    changed = False
    for each in new:
        changed = changed or known.get(each.coordinates) != each
        known[each.coordinates] = each
    if not changed:
        return recorded, False
    return tuple(sorted(known.values(), key=attrgetter("coordinates"))), True


def new_record(
    image_ref: str, name: str, credentials: ImagePullCredentials | None, now_ns: int
) -> ImagePulledRecord:
    """Return the first record of an image; without *credentials* it only records that the image was pulled."""
    mapping = {} if credentials is None else {name: credentials}
    return ImagePulledRecord(image_ref=image_ref, last_updated_ns=now_ns, credential_mapping=mapping)


def merge_credentials(
    record: ImagePulledRecord,
    name: str,
    credentials: ImagePullCredentials | None,
    clock: Callable[[], int],
) -> tuple[ImagePulledRecord, bool]:
    """Return *record* with credentials added for an image's name, and whether that changed it.

    The time of the record is updated only if it changed.
    """
    if credentials is None or credentials.is_empty:
        return record, False
    entry = record.credential_mapping.get(name)
    merged = credentials if entry is None else _merge_entry(entry, credentials)
    if merged == entry:
        return record, False
    mapping = {**record.credential_mapping, name: merged}
    return replace(record, last_updated_ns=clock(), credential_mapping=mapping), True


def _merge_entry(entry: ImagePullCredentials, new: ImagePullCredentials) -> ImagePullCredentials:
    if entry.node_pods_accessible:
        return entry
    if new.node_pods_accessible:
        return ImagePullCredentials(node_pods_accessible=True)
    # As in the kubelet, new accounts are ignored if there are new secrets; the kubelet never has both at once.
    if new.kubernetes_secrets:
        secrets, _ = merge_secrets(entry.kubernetes_secrets, new.kubernetes_secrets)
        return replace(entry, kubernetes_secrets=secrets)
    accounts, _ = merge_service_accounts(entry.kubernetes_service_accounts, new.kubernetes_service_accounts)
    return replace(entry, kubernetes_service_accounts=accounts)
