"""The images of a container runtime, over its CRI socket: containerd, CRI-O or any other ``runtime.v1`` server."""

from __future__ import annotations

import os

from keyferry._core.extras import install_hint
from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, EnvironmentProblem, Kind
from keyferry.images.keyring import Credential
from keyferry.pulls.cri.messages import IMAGE_SERVICE, RUNTIME_SERVICE, message
from keyferry.pulls.failure_text import FailureKind, recognise
from keyferry.pulls.stored_image import StoredImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Runtime", "RuntimeInfo", "classify", "connect_runtime"]

# The kubelet's limit: the responses of runtimes with many images are long.
_MOST_BYTES = 16 * 1024 * 1024
_LONGEST_MESSAGE = 2000
TIMEOUT_SECONDS = 120.0
SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/run/cri-dockerd.sock",
)
# The status codes that are specific enough to classify a failed pull.
_CODES = {
    "UNAUTHENTICATED": Kind.REFUSED,
    "PERMISSION_DENIED": Kind.REFUSED,
    "NOT_FOUND": Kind.NOT_FOUND,
    "DEADLINE_EXCEEDED": Kind.TIMEOUT,
    "UNAVAILABLE": Kind.UNREACHABLE,
}
# Other failures are classified by their messages, since containerd and CRI-O send most of them as UNKNOWN.
_KINDS = {
    FailureKind.REFUSED: Kind.REFUSED,
    FailureKind.EXPIRED: Kind.REFUSED,
    # A private repository that the registry hides.
    FailureKind.HIDDEN: Kind.REFUSED,
    FailureKind.NOT_FOUND: Kind.NOT_FOUND,
    FailureKind.LAYER: Kind.NOT_FOUND,
    FailureKind.TIMEOUT: Kind.TIMEOUT,
    FailureKind.CANCELED: Kind.TIMEOUT,
    FailureKind.DNS: Kind.UNREACHABLE,
    FailureKind.UNREACHABLE: Kind.UNREACHABLE,
    FailureKind.AUTHORITY: Kind.UNREACHABLE,
    FailureKind.CERTIFICATE: Kind.UNREACHABLE,
    FailureKind.CLIENT_CERTIFICATE: Kind.UNREACHABLE,
    FailureKind.PROTOCOL: Kind.UNREACHABLE,
}


class RuntimeInfo(Value):
    """The name and versions of a container runtime."""

    name: str
    version: str
    api_version: str


class Runtime:
    """A connection to a container runtime's image service; safe to use from several threads."""

    def __init__(self, socket: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Open a connection to the socket at a path; nothing is sent before the first call."""
        grpc = _grpc()
        options = [
            ("grpc.max_receive_message_length", _MOST_BYTES),
            # The socket is a file on this machine, so no proxy applies.
            ("grpc.enable_http_proxy", 0),
        ]
        self.socket = socket
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def version(self) -> RuntimeInfo:
        """Return the name and version of the runtime."""
        answer = self._call(RUNTIME_SERVICE, "Version", message("VersionRequest")())
        return RuntimeInfo(
            name=answer.runtime_name, version=answer.runtime_version, api_version=answer.runtime_api_version
        )

    def find_image(self, image: str) -> StoredImage | None:
        """Return the image with that name or id, or None if the runtime has none."""
        request = message("ImageStatusRequest")(image=message("ImageSpec")(image=image))
        answer = self._call(IMAGE_SERVICE, "ImageStatus", request)
        return _to_image(answer.image) if answer.HasField("image") and answer.image.id else None

    def list_images(self) -> tuple[StoredImage, ...]:
        """Return every image of the runtime."""
        answer = self._call(IMAGE_SERVICE, "ListImages", message("ListImagesRequest")())
        return tuple(map(_to_image, answer.images))

    def pull_image(
        self, image: str, credential: Credential | None = None, *, timeout_seconds: float | None = None
    ) -> str:
        """Have the runtime pull *image*, with a credential or anonymously, and return its reference, usually an id.

        Raise ContainerRuntimeError if it fails; its kind follows from the runtime's code or message.
        """
        request = message("PullImageRequest")(image=message("ImageSpec")(image=image))
        if credential is not None:
            request.auth.username = credential.username
            request.auth.password = credential.password
        answer = self._call(
            IMAGE_SERVICE,
            "PullImage",
            request,
            timeout_seconds,
            known=() if credential is None else (credential.password,),
        )
        return str(answer.image_ref)

    def _call(
        self,
        service: str,
        method: str,
        request: Any,
        timeout_seconds: float | None = None,
        known: tuple[str, ...] = (),
    ) -> Any:
        grpc = _grpc()
        ask = self._channel.unary_unary(
            service + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=message(f"{method}Response").FromString,
        )
        try:
            return ask(request, timeout=timeout_seconds or self._timeout_seconds)
        except grpc.RpcError as error:
            code, said = error.code().name, error.details() or ""
        # Raised outside the except block, because the frames of the caught error hold the request.
        shown = printable(" ".join(redact(said, known).split()))[:_LONGEST_MESSAGE]
        raise ContainerRuntimeError(self.socket, code, shown, classify(code, said))


def connect_runtime(address: str = "", *, timeout_seconds: float = TIMEOUT_SECONDS) -> Runtime:
    """Connect to the runtime at a socket, ``unix:///run/containerd/containerd.sock`` or a plain path.

    Without an address, use the first well-known socket that exists. Raise EnvironmentProblem if there is no socket.
    """
    path = address.removeprefix("unix://")
    if "://" in path:
        raise EnvironmentProblem(f"{address!r} is not a unix socket; expected unix:///path/to/runtime.sock")
    if not path:
        path = next(filter(os.path.exists, SOCKETS), "")
        if not path:
            raise EnvironmentProblem(
                f"no container runtime found at {', '.join(SOCKETS)}; name its socket with --cri unix:///path"
            )
    if not os.path.exists(path):
        raise EnvironmentProblem(f"socket {path!r} does not exist; is the container runtime running?")
    return Runtime(os.path.abspath(path), timeout_seconds=timeout_seconds)


def classify(code: str, said: str) -> Kind:
    """Return the kind of a failure: refused, not found, unreachable, timeout, or error."""
    known = _CODES.get(code)
    if known is not None:
        return known
    return _KINDS.get(recognise(said).kind, Kind.ERROR)


def _to_image(image: Any) -> StoredImage:
    return StoredImage(
        id=image.id,
        tags=tuple(image.repo_tags),
        digests=tuple(image.repo_digests),
        size=int(image.size),
        is_pinned=bool(image.pinned),
    )


def _grpc() -> Any:
    try:
        import google.protobuf as google_protobuf  # noqa: F401 - only to check that it is installed
        import grpc
    except ImportError:
        message = "access to a container runtime requires the packages 'grpcio' and 'protobuf', which are not installed"
        raise EnvironmentProblem(f"{message}: {install_hint('cri')}") from None
    return grpc
