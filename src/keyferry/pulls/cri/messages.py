"""The image messages of the container runtime interface, ``runtime.v1``.

They are defined in a table that is passed to the protobuf library on first use, so that there is no generated code to
keep in step with the library's version. Numbers and names are those of the interface; protobuf skips fields that are
not in the table.
"""

from __future__ import annotations

from functools import cache
from threading import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["IMAGE_SERVICE", "RUNTIME_SERVICE", "message"]

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
