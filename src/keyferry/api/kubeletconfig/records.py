"""Pull intents and pulled records of ``kubelet.config.k8s.io``: v1beta1, and v1alpha1 with the same fields."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import dumps
from keyferry.api.kubeletconfig.v1 import GROUP
from keyferry.api.meta import NO_TIME_NS
from keyferry.api.wire import WireValue, boolean, list_of, map_of, object_of, text, time, wire
from keyferry.errors import Kind, RecordError

__all__ = [
    "API_VERSION",
    "API_VERSIONS",
    "INTENT",
    "RECORD",
    "ImagePullCredentials",
    "ImagePullIntent",
    "ImagePullSecret",
    "ImagePullServiceAccount",
    "ImagePulledRecord",
    "encode_intent",
    "encode_record",
]

API_VERSION = f"{GROUP}/v1beta1"
API_VERSIONS = (API_VERSION, f"{GROUP}/v1alpha1")
INTENT, RECORD = "ImagePullIntent", "ImagePulledRecord"


class ImagePullIntent(WireValue):
    """A pull that was started; *image* is the image as written in the pod's spec."""

    image: str = wire("image", text, always=True, default="")


class _NamespacedObject(WireValue):
    """A secret or service account of a cluster."""

    uid: str = wire("uid", text, always=True, default="")
    namespace: str = wire("namespace", text, always=True, default="")
    name: str = wire("name", text, always=True, default="")

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """The namespace, name and UID, by which secrets and accounts are identified and sorted."""
        return self.namespace, self.name, self.uid


class ImagePullServiceAccount(_NamespacedObject):
    """A service account that an image was pulled for."""


class ImagePullSecret(_NamespacedObject):
    """A pull secret that an image was pulled with; its hash is unsalted and therefore not shown."""

    credential_hash: str = wire("credentialHash", text, always=True, default="", repr=False)


class ImagePullCredentials(WireValue):
    """The credentials that gave access to an image under one name: secrets, accounts, or those of the node."""

    kubernetes_secrets: tuple[ImagePullSecret, ...] = wire(
        "kubernetesSecrets", list_of(object_of(ImagePullSecret)), default=()
    )
    kubernetes_service_accounts: tuple[ImagePullServiceAccount, ...] = wire(
        "kubernetesServiceAccounts", list_of(object_of(ImagePullServiceAccount)), default=()
    )
    node_pods_accessible: bool = wire("nodePodsAccessible", boolean, default=False)

    @property
    def is_empty(self) -> bool:
        """Whether there are no secrets and no accounts, and pods of the node have no access."""
        named = self.kubernetes_secrets or self.kubernetes_service_accounts
        return not (named or self.node_pods_accessible)


class ImagePulledRecord(WireValue):
    """The credentials that an image on the node was pulled with, by image name without tag."""

    last_updated_ns: int = wire("lastUpdatedTime", time, always=True, default=NO_TIME_NS)
    image_ref: str = wire("imageRef", text, always=True, default="")
    credential_mapping: Mapping[str, ImagePullCredentials] = wire(
        "credentialMapping", map_of(object_of(ImagePullCredentials)), default_factory=dict
    )


def encode_intent(intent: ImagePullIntent, api_version: str = API_VERSION) -> bytes:
    """Return the content of an intent's file: one line of JSON."""
    return _encode(INTENT, api_version, intent)


def encode_record(record: ImagePulledRecord, api_version: str = API_VERSION) -> bytes:
    """Return the content of a record's file: one line of JSON, with times in whole seconds and sorted keys."""
    return _encode(RECORD, api_version, record)


def _encode(kind: str, api_version: str, value: WireValue) -> bytes:
    if api_version not in API_VERSIONS:
        text = f'no kind "{kind}" is registered for version "{api_version}" in scheme "<scheme>"'
        message = f"there is no {kind} of version {api_version!r}, expected one of {', '.join(API_VERSIONS)}"
        raise RecordError("", message, text, Kind.TYPE, Kind.UNKNOWN_TYPE)
    return (dumps({"kind": kind, "apiVersion": api_version, **value.to_document()}) + "\n").encode()
