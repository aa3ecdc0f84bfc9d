"""Pull intents and pulled records of ``kubelet.config.k8s.io``: v1beta1, and v1alpha1 with the same fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from keyferry._core.json import dumps
from keyferry._core.paths import Path
from keyferry._core.values import Value, field
from keyferry.api.codec import Reader
from keyferry.api.kubeletconfig.v1 import GROUP
from keyferry.api.meta import format_time, parse_time
from keyferry.errors import Kind, RecordError, TimeError

__all__ = [
    "API_VERSION",
    "API_VERSIONS",
    "INTENT",
    "NO_TIME_NS",
    "RECORD",
    "ImagePullCredentials",
    "ImagePullIntent",
    "ImagePullSecret",
    "ImagePullServiceAccount",
    "ImagePulledRecord",
    "encode_intent",
    "encode_record",
    "read_intent",
    "read_record",
]

API_VERSION = f"{GROUP}/v1beta1"
API_VERSIONS = (API_VERSION, f"{GROUP}/v1alpha1")
INTENT, RECORD = "ImagePullIntent", "ImagePulledRecord"
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
# Go's zero time, the first instant of the year 1, which is written as null.
NO_TIME_NS = -62_135_596_800_000_000_000


class ImagePullIntent(Value):
    """A pull that was started; *image* is the image as written in the pod's spec."""

    image: str = ""


class ImagePullSecret(Value):
    """A pull secret that an image was pulled with; its hash is unsalted and therefore not shown."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = field(default="", repr=False)

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """The namespace, name and UID, by which secrets are identified and sorted."""
        return self.namespace, self.name, self.uid


class ImagePullServiceAccount(Value):
    """A service account that an image was pulled for."""

    uid: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """The namespace, name and UID, by which accounts are identified and sorted."""
        return self.namespace, self.name, self.uid


class ImagePullCredentials(Value):
    """The credentials that gave access to an image under one name: secrets, accounts, or those of the node."""

    kubernetes_secrets: tuple[ImagePullSecret, ...] = ()
    kubernetes_service_accounts: tuple[ImagePullServiceAccount, ...] = ()
    node_pods_accessible: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there are no secrets and no accounts, and pods of the node have no access."""
        named = self.kubernetes_secrets or self.kubernetes_service_accounts
        return not (named or self.node_pods_accessible)


class ImagePulledRecord(Value):
    """The credentials that an image on the node was pulled with, by image name without tag."""

    image_ref: str = ""
    last_updated_ns: int = NO_TIME_NS
    credential_mapping: Mapping[str, ImagePullCredentials] = field(default_factory=dict)


def encode_intent(intent: ImagePullIntent, api_version: str = API_VERSION) -> bytes:
    """Return the content of an intent's file: one line of JSON."""
    return _encode(INTENT, api_version, {"image": intent.image})


def encode_record(record: ImagePulledRecord, api_version: str = API_VERSION) -> bytes:
    """Return the content of a record's file: one line of JSON, with times in whole seconds and sorted keys."""
    moment = record.last_updated_ns
    fields: dict[str, object] = {
        "lastUpdatedTime": None if moment == NO_TIME_NS else format_time(moment),
        "imageRef": record.image_ref,
    }
    if record.credential_mapping:
        mapping = sorted(record.credential_mapping.items())
        fields["credentialMapping"] = {name: _credentials_document(entry) for name, entry in mapping}
    return _encode(RECORD, api_version, fields)


def _encode(kind: str, api_version: str, fields: dict[str, object]) -> bytes:
    if api_version not in API_VERSIONS:
        text = f'no kind "{kind}" is registered for version "{api_version}" in scheme "<scheme>"'
        message = f"there is no {kind} of version {api_version!r}, expected one of {', '.join(API_VERSIONS)}"
        raise RecordError("", message, text, Kind.TYPE, Kind.UNKNOWN_TYPE)
    return (dumps({"kind": kind, "apiVersion": api_version, **fields}) + "\n").encode()


def _credentials_document(entry: ImagePullCredentials) -> dict[str, object]:
    document: dict[str, object] = {}
    if entry.kubernetes_secrets:
        document["kubernetesSecrets"] = [
            {"uid": s.uid, "namespace": s.namespace, "name": s.name, "credentialHash": s.credential_hash}
            for s in entry.kubernetes_secrets
        ]
    if entry.kubernetes_service_accounts:
        document["kubernetesServiceAccounts"] = [
            {"uid": account.uid, "namespace": account.namespace, "name": account.name}
            for account in entry.kubernetes_service_accounts
        ]
    if entry.node_pods_accessible:
        document["nodePodsAccessible"] = True
    return document


def read_intent(document: object, reader: Reader) -> ImagePullIntent:
    """Return the intent in *document*; *reader* collects the problems."""
    known = {"kind": reader.text, "apiVersion": reader.text, "image": reader.text}
    return ImagePullIntent(reader.struct(document, (), known).get("image", ""))


def read_record(document: object, reader: Reader) -> ImagePulledRecord:
    """Return the record in *document*; *reader* collects the problems."""

    def read_credentials(value: object, path: Path) -> ImagePullCredentials:
        return _read_credentials(reader, value, path)

    fields = reader.struct(
        document,
        (),
        {
            "kind": reader.text,
            "apiVersion": reader.text,
            "lastUpdatedTime": lambda value, path: _read_time(reader, value, path),
            "imageRef": reader.text,
            "credentialMapping": reader.map_of(read_credentials),
        },
    )
    return ImagePulledRecord(
        fields.get("imageRef", ""),
        fields.get("lastUpdatedTime", NO_TIME_NS),
        fields.get("credentialMapping") or {},
    )


def _read_time(reader: Reader, value: object, path: Path) -> int:
    if not isinstance(value, str):
        reader.text(value, path)
        return NO_TIME_NS
    try:
        return _parse_time(value)
    except TimeError as error:
        reader.note(path, error.message, error.kubernetes_text, Kind.TIME)
    return NO_TIME_NS


def _parse_time(text: str) -> int:
    """Parse a time as Go does, with a fast path for the form that the kubelet writes."""
    if _WRITTEN.fullmatch(text):
        try:
            return int(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
        except ValueError:
            pass  # the year 0, or not a date: parse_time handles both
    return parse_time(text)


def _read_credentials(reader: Reader, value: object, path: Path) -> ImagePullCredentials:
    fields = reader.struct(
        value,
        path,
        {
            "kubernetesSecrets": reader.list_of(lambda item, at: _read_secret(reader, item, at)),
            "kubernetesServiceAccounts": reader.list_of(lambda item, at: _read_account(reader, item, at)),
            "nodePodsAccessible": reader.boolean,
        },
    )
    return ImagePullCredentials(
        tuple(fields.get("kubernetesSecrets") or ()),
        tuple(fields.get("kubernetesServiceAccounts") or ()),
        bool(fields.get("nodePodsAccessible")),
    )


def _read_secret(reader: Reader, value: object, path: Path) -> ImagePullSecret:
    names = ("uid", "namespace", "name", "credentialHash")
    fields = reader.struct(value, path, dict.fromkeys(names, reader.text))
    return ImagePullSecret(*(fields.get(name, "") for name in names))


def _read_account(reader: Reader, value: object, path: Path) -> ImagePullServiceAccount:
    names = ("uid", "namespace", "name")
    fields = reader.struct(value, path, dict.fromkeys(names, reader.text))
    return ImagePullServiceAccount(*(fields.get(name, "") for name in names))
