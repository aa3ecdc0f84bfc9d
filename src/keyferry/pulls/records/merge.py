"""How new credentials go into a record: by coordinates, sorted once something changed; "everybody" absorbs all else."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Protocol, TypeVar

from keyferry._core.values import replace
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)

__all__ = ["merge_credentials", "merge_secrets", "merge_service_accounts", "new_record"]


class _Placed(Protocol):
    @property
    def coordinates(self) -> tuple[str, str, str]: ...


_P = TypeVar("_P", bound=_Placed)


def merge_secrets(
    recorded: Iterable[ImagePullSecret], new: Iterable[ImagePullSecret]
) -> tuple[tuple[ImagePullSecret, ...], bool]:
    """Both lists as one, and whether that changed anything; a new hash takes the place of the old."""
    return _merge(recorded, new)


def merge_service_accounts(
    recorded: Iterable[ImagePullServiceAccount], new: Iterable[ImagePullServiceAccount]
) -> tuple[tuple[ImagePullServiceAccount, ...], bool]:
    """Both lists as one, and whether that changed anything."""
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
    """The first record of an image; without *credentials* it only says that the kubelet pulled it."""
    mapping = {} if credentials is None else {name: credentials}
    return ImagePulledRecord(image_ref, now_ns, mapping)


def merge_credentials(
    record: ImagePulledRecord,
    name: str,
    credentials: ImagePullCredentials | None,
    clock: Callable[[], int],
) -> tuple[ImagePulledRecord, bool]:
    """*record* with credentials added for an image's name, and whether that changed it; only then its time is set."""
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
    # As in the kubelet, which never sees both at once: with secrets there, new accounts are passed over.
    if new.kubernetes_secrets:
        secrets, _ = merge_secrets(entry.kubernetes_secrets, new.kubernetes_secrets)
        return replace(entry, kubernetes_secrets=secrets)
    accounts, _ = merge_service_accounts(entry.kubernetes_service_accounts, new.kubernetes_service_accounts)
    return replace(entry, kubernetes_service_accounts=accounts)
