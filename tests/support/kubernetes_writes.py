"""Writes to the API server of the tests, by the rules of the real one, and what kubectl reads before it writes.

What the real server refuses is refused: a Secret of another type, pull secrets that are not JSON, a name that is
taken, an object that changed since. It sets UIDs, versions, times and managed fields, and a new pod gets the pull
secrets of its service account.
"""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from .cri_server import decode

Json = dict[str, Any]
Key = tuple[str, str, str, str]

RBAC = "rbac.authorization.k8s.io"
CLUSTER_SCOPED = ("clusterroles", "clusterrolebindings", "nodes")
# The verb of the authorizer for each method that writes.
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PULL_SECRETS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
# The lists that a strategic merge patch merges, and the field by which; it replaces all others as a whole. The pull
# secrets of a pod are merged, those of a service account are not.
_MERGED_LISTS: dict[str, dict[tuple[str, ...], str]] = {
    "ServiceAccount": {("secrets",): "name"},
    "Pod": {
        ("spec", "imagePullSecrets"): "name",
        ("spec", "containers"): "name",
        ("spec", "volumes"): "name",
    },
}
# How a body in protobuf begins, in which newer versions of kubectl create objects.
_PROTOBUF = b"k8s\0"
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class WriteRefused(Exception):
    """A write that is refused, with the status of the response, its reason and its message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code, self.reason, self.message = code, reason, message


@dataclass(frozen=True)
class Write:
    """A request that writes: ``key`` is what it is about, ``kind`` and ``api_version`` those of its resource."""

    method: str
    key: Key
    kind: str
    api_version: str
    body: bytes = b""
    content_type: str = ""
    is_dry: bool = False

    @property
    def qualified(self) -> str:
        """The resource with its group, as in messages."""
        group, resource, *_ = self.key
        return f"{resource}.{group}" if group else resource

    def document(self) -> Any:
        """Return the body, decoded."""
        if self.body.startswith(_PROTOBUF):
            return _secret_of(self.body)
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise WriteRefused(400, "BadRequest", f"json parse error: {error}") from None


@dataclass
class Store:
    """The objects of a server; ``fail`` refuses each write from the one of that number on, counted from 1."""

    objects: dict[Key, Json]
    # Whether a deleted pod waits for its kubelet to end it, which a test does.
    has_kubelets: bool = False
    fail_from: int = 0
    fail_code: int = 403
    done: list[Write] = field(default_factory=list)
    _versions: count[int] = field(default_factory=lambda: count(1000))

    def write(self, write: Write) -> tuple[int, Json]:
        """Write, and return the status and the body of the response."""
        if not write.is_dry:
            self.done.append(write)
            if self.fail_from and len(self.done) >= self.fail_from:
                reason = {403: "Forbidden", 500: "InternalError"}[self.fail_code]
                raise WriteRefused(self.fail_code, reason, f"{write.qualified} is not written, as scripted")
        if write.method == "POST":
            return 201, self._create(write)
        old = self.objects.get(write.key)
        if old is None:
            raise WriteRefused(404, "NotFound", f'{write.qualified} "{write.key[3]}" not found')
        if write.method == "DELETE":
            return 200, self._delete(write, old)
        if write.method == "PUT":
            return 200, self._update(write, old, write.document())
        return 200, self._update(write, old, _patched(write, old))

    def _create(self, write: Write) -> Json:
        new = _with_head(write, write.document())
        metadata = new.setdefault("metadata", {})
        group, resource, namespace, _ = write.key
        name = metadata.get("name", "")
        key = (group, resource, namespace, name)
        if not name:
            raise _invalid(write, name, "metadata.name: Required value: name or generateName is required")
        if metadata.get("namespace", namespace) != namespace:
            raise WriteRefused(400, "BadRequest", "the namespace of the object does not match the request's")
        if metadata.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise WriteRefused(500, "InternalError", message)
        if key in self.objects:
            raise WriteRefused(409, "AlreadyExists", f'{write.qualified} "{name}" already exists')
        if namespace:
            metadata["namespace"] = namespace
        version = next(self._versions)
        metadata["uid"] = f"00000000-0000-4000-9000-{version:012d}"
        metadata["creationTimestamp"] = _now()
        if write.kind == "Pod":
            self._admit_pod(new, namespace)
        _check(write, new)
        return self._keep(write, key, new, version)

    def _admit_pod(self, new: Json, namespace: str) -> None:
        """Give a pod its account's pull secrets if it lists none, and no status."""
        new["status"] = {"phase": "Pending"}
        spec = new["spec"]
        name = spec.setdefault("serviceAccountName", "default")
        account = self.objects.get(("", "serviceaccounts", namespace, name))
        if account is None:
            message = (
                f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            )
            raise WriteRefused(403, "Forbidden", message)
        if not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = deepcopy(account.get("imagePullSecrets", []))

    def _update(self, write: Write, old: Json, document: Json) -> Json:
        new = _with_head(write, document)
        metadata, kept = new.setdefault("metadata", {}), old["metadata"]
        name = kept["name"]
        if metadata.get("name", name) != name or metadata.get("namespace", write.key[2]) != write.key[2]:
            raise WriteRefused(400, "BadRequest", "the name of the object does not match the request's")
        for own in ("uid", "resourceVersion"):
            if metadata.get(own) and metadata[own] != kept.get(own):
                message = (
                    f'Operation cannot be fulfilled on {write.qualified} "{name}": the object has been modified; '
                    "please apply your changes to the latest version and try again"
                )
                raise WriteRefused(409, "Conflict", message)
        for own in ("name", "namespace", "uid", "creationTimestamp"):
            if own in kept:
                metadata[own] = kept[own]
        _check(write, new, old)
        return self._keep(write, write.key, new, next(self._versions))

    def _keep(self, write: Write, key: Key, new: Json, version: int) -> Json:
        metadata = new["metadata"]
        metadata["resourceVersion"] = str(version)
        metadata["managedFields"] = [
            {
                "manager": "kubectl",
                "operation": "Update",
                "apiVersion": write.api_version,
                "time": _now(),
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    f"f:{name}": {} for name in new if name not in ("kind", "apiVersion", "metadata")
                },
            }
        ]
        if not write.is_dry:
            self.objects[key] = new
        return new

    def _delete(self, write: Write, old: Json) -> Json:
        wanted = (write.document() if write.body else {}).get("preconditions", {}).get("uid")
        uid = old["metadata"].get("uid")
        if wanted and wanted != uid:
            raise WriteRefused(409, "Conflict", "Precondition failed: UID in precondition")
        if self.has_kubelets and write.kind == "Pod":
            old["metadata"].update(deletionTimestamp=_now(), deletionGracePeriodSeconds=1)
            return old
        if not write.is_dry:
            del self.objects[write.key]
        details = {"name": write.key[3], "kind": write.key[1], "uid": uid}
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
        return {**head, "status": "Success", "details": details}


def _with_head(write: Write, document: Json) -> Json:
    """Return an object of the kind that is written; one of another kind is refused."""
    found = (document.get("kind", write.kind), document.get("apiVersion", write.api_version))
    if found != (write.kind, write.api_version):
        raise WriteRefused(400, "BadRequest", f"the object provided is unrecognized: {found}")
    return {**deepcopy(document), "kind": write.kind, "apiVersion": write.api_version}


def _secret_of(body: bytes) -> Json:
    """Return a Secret from its protobuf."""
    fields = _message(_message(body.removeprefix(_PROTOBUF))[2][0])
    metadata = _message(fields[1][0])
    entries = [_message(each) for each in fields.get(2, [])]
    return {
        "metadata": {"name": metadata[1][0].decode(), "namespace": metadata[3][0].decode()},
        "data": {each[1][0].decode(): base64.b64encode(each[2][0]).decode() for each in entries},
        "type": fields[3][0].decode(),
    }


def _message(data: Any) -> dict[int, list[Any]]:
    return decode(data)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _invalid(write: Write, name: str, why: str) -> WriteRefused:
    return WriteRefused(422, "Invalid", f'{write.kind} "{name}" is invalid: {why}')


# What is valid.


def _check(write: Write, new: Json, old: Json | None = None) -> None:
    if write.kind == "Secret":
        _check_secret(write, new, old)
    elif write.kind == "Pod" and old is not None:
        changed = {
            name for name in {*new["spec"], *old["spec"]} if new["spec"].get(name) != old["spec"].get(name)
        }
        if changed - {"containers"}:
            raise _invalid(
                write, new["metadata"]["name"], "spec: Forbidden: pod updates may not change fields"
            )


def _check_secret(write: Write, new: Json, old: Json | None) -> None:
    name = new["metadata"]["name"]
    data = new.setdefault("data", {}) or {}
    for key, value in (new.pop("stringData", None) or {}).items():
        data[key] = base64.b64encode(value.encode()).decode()
    new["data"] = data
    kind = str(new.setdefault("type", "Opaque" if old is None else old["type"]))
    if old is not None and kind != old["type"]:
        raise _invalid(write, name, f'type: Invalid value: "{kind}": field is immutable')
    if old is not None and old.get("immutable") and data != old.get("data", {}):
        raise _invalid(write, name, "data: Forbidden: field is immutable when `immutable` is set")
    needed = _PULL_SECRETS.get(kind)
    if needed is None:
        return
    if needed not in data:
        raise _invalid(write, name, f"data[{needed}]: Required value")
    try:
        is_map = isinstance(json.loads(base64.b64decode(data[needed])), dict)
    except ValueError:
        is_map = False
    if not is_map:
        raise _invalid(write, name, f'data[{needed}]: Invalid value: "<secret contents redacted>"')


# Patches.


def _patched(write: Write, old: Json) -> Json:
    patch = write.document()
    if write.content_type == _JSON_PATCH:
        return _json_patched(deepcopy(old), patch)
    if write.content_type not in (_MERGE_PATCH, _STRATEGIC_PATCH):
        message = f"the body of the request was in an unknown format: {write.content_type}"
        raise WriteRefused(415, "UnsupportedMediaType", message)
    if patch is None:
        return old
    lists = _MERGED_LISTS.get(write.kind, {}) if write.content_type == _STRATEGIC_PATCH else {}
    return dict(_merged(lists, (), deepcopy(old), patch))


def _merged(lists: dict[tuple[str, ...], str], path: tuple[str, ...], old: Any, patch: Any) -> Any:
    if isinstance(patch, list) and path in lists and isinstance(old, list):
        return _merged_list(lists[path], old, patch)
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            assert name.startswith("$setElementOrder/"), f"a directive that is not known here: {name}"
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(lists, (*path, name), merged.get(name), value)
    return merged


def _merged_list(key: str, old: list[Json], patch: list[Json]) -> list[Json]:
    merged = {each[key]: each for each in old}
    for each in patch:
        if each.get("$patch") == "delete":
            merged.pop(each[key], None)
        else:
            merged[each[key]] = {**merged.get(each[key], {}), **each}
    return list(merged.values())


def _json_patched(document: Json, patch: list[Json]) -> Json:
    """Return the document after each operation; the value null is that of a field that is not there."""
    for each in patch:
        operation, path = each["op"], each["path"]
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
        place: Any = document
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.get(part)
            if place is None:
                break
        if place is None:
            why = f"{operation} operation does not apply: doc is missing path: {path}: missing value"
            raise WriteRefused(422, "Invalid", why)
        if operation == "test":
            if (place.get(last) if isinstance(place, dict) else place[int(last)]) != each.get("value"):
                raise WriteRefused(422, "Invalid", f"testing value {path} failed: test failed")
        elif operation == "add" and isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), each["value"])
        else:
            assert operation == "add", f"an operation that is not known here: {operation}"
            place[last] = each["value"]
    return document


# What kubectl asks for before it writes.


def discover(path: str, kinds: dict[str, tuple[str, str]]) -> Json | None:
    """Return the document about the server's resources for a path; None for all other paths."""
    groups = sorted({group for group, _ in kinds.values()} - {""})
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        versions = {name: {"groupVersion": f"{name}/v1", "version": "v1"} for name in groups}
        entries = [
            {"name": name, "versions": [versions[name]], "preferredVersion": versions[name]}
            for name in groups
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}
    group = path.removeprefix("/apis/").removesuffix("/v1") if path.startswith("/apis/") else ""
    if path != "/api/v1" and (group not in groups or path != f"/apis/{group}/v1"):
        return None
    resources = [
        {
            "name": resource,
            "singularName": kind.lower(),
            "namespaced": resource not in CLUSTER_SCOPED,
            "kind": kind,
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }
        for kind, (own, resource) in kinds.items()
        if own == group
    ]
    version = f"{group}/v1" if group else "v1"
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
