"""Registries and container runtimes, and an image that a pod cannot have."""

from keyferry.errors.kinds import KeyferryError, Kind, WordEnum

__all__ = ["ContainerRuntimeError", "ImagePullError", "KubeletReason", "RegistryError"]


class ContainerRuntimeError(KeyferryError):
    """What a container runtime said when a call failed; *kind* is what it means by it.

    One of ``REFUSED`` (the registry did not take the credential), ``NOT_FOUND``, ``UNREACHABLE``, ``TIMEOUT`` and
    ``ERROR``.
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
    """A registry that refused, has not what was asked for, could not be reached, or must not be believed.

    ``status`` is that of its HTTP answer, 0 where there was none or its content was at fault. ``kind`` is
    ``REFUSED``, ``NOT_FOUND``, ``THROTTLED``, ``UNREACHABLE``, ``TIMEOUT``, ``UNSAFE`` (what it asked us to do),
    ``CONTENT`` (what it sent) or ``ERROR``; where none is given, the status decides.
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
        """Tell whether the registry, or its token server, did not accept the credential."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return f"registry {self.registry!r}: {self.message}"


class KubeletReason(WordEnum):
    """Why a container waits for its image, as the kubelet puts it into a pod's status and events."""

    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    INVALID_IMAGE_NAME = "InvalidImageName"
    # what a runtime says in place of ErrImagePull
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"


class ImagePullError(KeyferryError):
    """An image that a pod cannot have; ``kubelet_reason`` is the kubelet's word for it.

    ``failures`` has an error for each credential that was tried, in order. ``kind`` is as in RegistryError, ``ABSENT``
    for an image that is not there and must not be pulled, and ``NAME`` for a name that cannot be parsed.
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
        """Tell whether the registry, or its token server, accepted no credential."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return self.message


_STATUS_KINDS = {401: Kind.REFUSED, 403: Kind.REFUSED, 404: Kind.NOT_FOUND, 429: Kind.THROTTLED}
