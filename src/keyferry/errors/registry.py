"""Errors of registries and container runtimes, and of images that a pod cannot use."""

from __future__ import annotations

from enum import StrEnum

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = ["ContainerRuntimeError", "ImagePullError", "KubeletReason", "RegistryError"]


class ContainerRuntimeError(KeyferryError):
    """A failed call to a container runtime.

    ``kind`` is ``REFUSED`` (the registry did not accept the credential), ``NOT_FOUND``, ``UNREACHABLE``, ``TIMEOUT``
    or ``ERROR``.
    """

    def __init__(self, socket: str, code: str, message: str, kind: Kind = Kind.ERROR) -> None:
        super().__init__(socket, code, message, kind)
        self.socket = socket
        self.code = code
        self.message = message
        self.kind = kind
        self.kubernetes_text = (
            f"rpc error: code = {''.join(map(str.title, code.split('_')))} desc = {message}"
        )

    def __str__(self) -> str:
        return f"container runtime: {self.message or self.code}"


class RegistryError(KeyferryError):
    """A failed request to a registry, or a response that cannot be trusted.

    ``status`` is the HTTP status, or 0 if there was no response or the content of the response is wrong. ``kind`` is
    ``REFUSED``, ``NOT_FOUND``, ``THROTTLED``, ``UNREACHABLE``, ``TIMEOUT``, ``UNSAFE`` (the registry requested an
    unsafe action), ``CONTENT`` (the registry sent wrong content) or ``ERROR``; by default it follows from the status.
    """

    def __init__(self, registry: str, status: int, message: str, kind: Kind | None = None) -> None:
        super().__init__(registry, status, message, kind)
        self.registry = registry
        self.status = status
        self.message = message
        self.kubernetes_text = message
        self.kind = kind or _STATUS_KINDS.get(status, Kind.ERROR)

    @property
    def is_refusal(self) -> bool:
        """Whether the registry, or its token server, did not accept the credential."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return f"registry {self.registry!r}: {self.message}"


class KubeletReason(StrEnum):
    """Why a container waits for its image, in the kubelet's words for a pod's status and events."""

    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    INVALID_IMAGE_NAME = "InvalidImageName"
    # reported by a runtime in place of ErrImagePull
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"


class ImagePullError(KeyferryError):
    """An image that a pod cannot use; ``kubelet_reason`` is the kubelet's word for it.

    ``failures`` has an error for each credential that was tried, in order. ``kind`` is as in RegistryError, ``ABSENT``
    for an image that is not on the node and must not be pulled, and ``NAME`` for a name that cannot be parsed.
    """

    def __init__(  # noqa: PLR0917 - args mirror it
        self,
        image: str,
        kubelet_reason: KubeletReason,
        message: str,
        kubernetes_text: str = "",
        kind: Kind = Kind.ERROR,
        failures: tuple[KeyferryError, ...] = (),
    ) -> None:
        super().__init__(image, kubelet_reason, message, kubernetes_text, kind, failures)
        self.image = image
        self.kubelet_reason = kubelet_reason
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind
        self.failures = failures

    @property
    def is_refusal(self) -> bool:
        """Whether the registry, or its token server, accepted none of the credentials."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return self.message


_STATUS_KINDS = {401: Kind.REFUSED, 403: Kind.REFUSED, 404: Kind.NOT_FOUND, 429: Kind.THROTTLED}
