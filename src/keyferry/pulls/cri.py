"""A container runtime over its CRI socket: containerd, CRI-O or any other ``runtime.v1`` server.

The messages are defined in a table that is passed to the protobuf library on first use, so that there is no generated
code to keep in step with the library's version. Numbers and names are those of the interface; protobuf skips fields
that are not in the table.
"""

from __future__ import annotations

import os
from functools import cache
from threading import Lock

from keyferry._core.extras import install_hint
from keyferry._core.host_root import is_on_host, on_host
from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, EnvironmentProblem, Kind
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.failure_text import UNREACHED_KINDS, FailureKind, recognise
from keyferry.pulls.manifest import StoredImage
from keyferry.pulls.request import PullOptions
from keyferry.pulls.trial import AttemptResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


_PACKAGE = "runtime.v1"
IMAGE_SERVICE = f"/{_PACKAGE}.ImageService/"
RUNTIME_SERVICE = f"/{_PACKAGE}.RuntimeService/"

# Each field has a number and a type: a scalar, the name of a message, "[...]" if repeated, "{}" for a map of strings.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "VersionRequest": {"version": (1, "string")},
    "VersionResponse": {
        "version": (1, "string"),
        "runtime_name": (2, "string"),
        "runtime_version": (3, "string"),
        "runtime_api_version": (4, "string"),
    },
    "Int64Value": {"value": (1, "int64")},
    "ImageSpec": {
        "image": (1, "string"),
        "annotations": (2, "{}"),
        "user_specified_image": (18, "string"),
        "runtime_handler": (19, "string"),
        "image_ref": (20, "string"),
    },
    "ImageFilter": {"image": (1, "ImageSpec")},
    "ListImagesRequest": {"filter": (1, "ImageFilter")},
    "Image": {
        "id": (1, "string"),
        "repo_tags": (2, "[string]"),
        "repo_digests": (3, "[string]"),
        "size": (4, "uint64"),
        "uid": (5, "Int64Value"),
        "username": (6, "string"),
        "spec": (7, "ImageSpec"),
        "pinned": (8, "bool"),
    },
    "ListImagesResponse": {"images": (1, "[Image]")},
    "ImageStatusRequest": {"image": (1, "ImageSpec"), "verbose": (2, "bool")},
    "ImageStatusResponse": {"image": (1, "Image"), "info": (2, "{}")},
    "AuthConfig": {
        "username": (1, "string"),
        "password": (2, "string"),
        "auth": (3, "string"),
        "server_address": (4, "string"),
        "identity_token": (5, "string"),
        "registry_token": (6, "string"),
    },
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "uint32"),
    },
    "PodSandboxConfig": {"metadata": (1, "PodSandboxMetadata")},
    "PullImageRequest": {
        "image": (1, "ImageSpec"),
        "auth": (2, "AuthConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "PullImageResponse": {"image_ref": (1, "string")},
}
_lock = Lock()
_SCALARS = ("string", "bool", "int64", "uint64", "uint32")
# The kubelet's limit: the responses of runtimes with many images are long.
_MAX_BYTES = 16 * 1024 * 1024
_MAX_MESSAGE = 2000
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
    FailureKind.RATE_LIMIT: Kind.THROTTLED,
    **dict.fromkeys(UNREACHED_KINDS, Kind.UNREACHABLE),
    FailureKind.TIMEOUT: Kind.TIMEOUT,
    FailureKind.CANCELED: Kind.TIMEOUT,
}


@cache
def message(name: str) -> Any:
    """Return the class of a message."""
    from google.protobuf.message_factory import GetMessageClass

    # Serialised, because a cache may call its function in two threads at once, and classes of two pools are not
    # compatible.
    with _lock:
        return GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    # A separate pool, because the program may have loaded the whole interface under the same names.
    pool = DescriptorPool()
    file = FileDescriptorProto(name="keyferry/cri.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            _describe(described, name, field_name, number, kind)
    pool.Add(file)
    return pool


def _describe(described: Any, owner: str, name: str, number: int, kind: str) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    is_map = kind == "{}"
    is_many = is_map or kind.startswith("[")
    kind = _describe_entry(described, owner, name) if is_map else kind.strip("[]")
    field = described.field.add(name=name, number=number)
    field.label = Field.LABEL_REPEATED if is_many else Field.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = getattr(Field, f"TYPE_{kind.upper()}")
    else:
        field.type = Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"


def _describe_entry(described: Any, owner: str, name: str) -> str:
    """Add the message type of a map's entries, a key and a value, and return its name."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    entry = described.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for number, part in enumerate(("key", "value"), 1):
        entry.field.add(name=part, number=number, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
    return f"{owner}.{entry.name}"


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
            ("grpc.max_receive_message_length", _MAX_BYTES),
            # The socket is a file on this machine, so no proxy applies.
            ("grpc.enable_http_proxy", 0),
        ]
        self.socket = socket
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.insecure_channel(f"unix:{on_host(socket)}", options=options)

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
        shown = printable(" ".join(redact(said, known).split()))[:_MAX_MESSAGE]
        raise ContainerRuntimeError(self.socket, code, shown, classify(code, said))


class RuntimeTarget:
    """A container runtime as the target of pulls."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def place(self) -> str:
        """The socket's address, with its scheme."""
        return f"unix://{self._runtime.socket}"

    @property
    def runtime_socket(self) -> str:
        """The path of the runtime's socket."""
        return self._runtime.socket

    def find_image(self, image: str) -> StoredImage | None:
        """Return the runtime's image with a name or reference, or None."""
        return self._runtime.find_image(image)

    def list_images(self) -> tuple[StoredImage, ...]:
        """Return every image of the runtime."""
        return self._runtime.list_images()

    def pull_image(
        self, image: ImageName, credential: Credential | None, options: PullOptions = PullOptions()
    ) -> AttemptResult:
        """Have the runtime pull the image from its registry; it reports no progress."""
        ref = self._runtime.pull_image(image.text, credential, timeout_seconds=options.timeout_seconds)
        if not ref:
            raise ContainerRuntimeError(
                self._runtime.socket, "UNKNOWN", f'imageRef of image "{image.text}" is not set'
            )
        return AttemptResult(image_ref=ref)

    def close(self) -> None:
        """Close the connection, which ends the calls in progress."""
        self._runtime.close()


def connect_runtime(address: str = "", *, timeout_seconds: float = TIMEOUT_SECONDS) -> Runtime:
    """Connect to the runtime at a socket, ``unix:///run/containerd/containerd.sock`` or a plain path.

    Without an address, use the first well-known socket that exists. Raise EnvironmentProblem if there is no socket.
    """
    path = address.removeprefix("unix://")
    if "://" in path:
        raise EnvironmentProblem(f"{address!r} is not a unix socket; expected unix:///path/to/runtime.sock")
    if not path:
        path = next(filter(is_on_host, SOCKETS), "")
        if not path:
            raise EnvironmentProblem(
                f"no container runtime found at {', '.join(SOCKETS)}; name its socket with --cri unix:///path"
            )
    if not is_on_host(path):
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
        need = "access to a container runtime requires the packages 'grpcio' and 'protobuf', which are not installed"
        raise EnvironmentProblem(f"{need}: {install_hint('cri')}") from None
    return grpc
