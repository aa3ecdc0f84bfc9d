"""Kubernetes objects as read from a file or a cluster, and their names as kubectl spells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.bounded import read_path, read_stream, standard_input
from keyferry._core.documents import read_document
from keyferry._core.gotext import go_strerror
from keyferry._core.paths import format_path
from keyferry._core.values import Value
from keyferry.api.meta import parse_time
from keyferry.errors import DocumentError, EnvironmentProblem, TimeError

__all__ = [
    "Change",
    "Json",
    "KubernetesObject",
    "ObjectKind",
    "Target",
    "parse_target",
    "read_file",
    "read_file_or_input",
    "read_objects",
    "seconds_of",
    "spell_kinds",
]

Json = dict[str, object]
_STANDARD_INPUT = "-"


class ObjectKind(StrEnum):
    """The kinds of Kubernetes objects that are read."""

    POD = "Pod"
    DEPLOYMENT = "Deployment"
    REPLICA_SET = "ReplicaSet"
    REPLICATION_CONTROLLER = "ReplicationController"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"
    CRON_JOB = "CronJob"
    SECRET = "Secret"  # noqa: S105 - the name of a kind
    SERVICE_ACCOUNT = "ServiceAccount"
    EVENT = "Event"

    @property
    def is_workload(self) -> bool:
        """Whether objects of this kind have containers."""
        return self not in (ObjectKind.SECRET, ObjectKind.SERVICE_ACCOUNT, ObjectKind.EVENT)


class Change(Value):
    """Something that changed, and when, in seconds since 1970; *how* is the verb.

    The kubelet knows it *delay_seconds* later at the latest.
    """

    what: str
    at: float
    how: str = "changed"
    delay_seconds: float = 0.0


class KubernetesObject(Value):
    """A Kubernetes object, and the file or server that it was read from."""

    origin: str
    kind: ObjectKind
    value: Json

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.text("metadata", "name")

    @property
    def uid(self) -> str:
        """The UID of the object; empty for an object that was never created."""
        return self.text("metadata", "uid")

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the object."""
        found = self.field("metadata", "annotations")
        return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}

    @property
    def changed_at(self) -> float | None:
        """When it was last written, in seconds since 1970, by its managedFields and creationTimestamp; None if unknown.

        A change of its status alone does not count, nor one of a secret that left its data as it was.
        """
        metadata = self.value.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        managed = fields.get("managedFields")
        writes = [
            each.get("time")
            for each in (managed if isinstance(managed, list) else ())
            if isinstance(each, dict) and not each.get("subresource") and self._is_about_content(each)
        ]
        found = (seconds_of(each) for each in (fields.get("creationTimestamp"), *writes))
        return max((each for each in found if each is not None), default=None)

    def _is_about_content(self, entry: Json) -> bool:
        """Return whether an entry of managedFields is about what pulls depend on."""
        fields = entry.get("fieldsV1")
        if self.kind is not ObjectKind.SECRET or not isinstance(fields, dict):
            return True
        return any(name in fields for name in ("f:data", "f:stringData", "f:type"))

    def field(self, *path: str | int) -> object:
        """Return the value at *path*, or None; raise EnvironmentProblem if there is anything but a map on the way.

        A number in *path* is the place of an entry that ``items`` has yielded.
        """
        found: object = self.value
        for at, part in enumerate(path):
            if found is None:
                return None
            if isinstance(part, int) and isinstance(found, list):
                found = found[part]
                continue
            if not isinstance(found, dict):
                raise self._wrong(path[:at], "a map", found)
            found = found.get(part)
        return found

    def text(self, *path: str | int) -> str:
        """Return the string at *path*, empty if there is none; raise EnvironmentProblem for any other type."""
        found = self.field(*path)
        if found is None or isinstance(found, str):
            return found or ""
        raise self._wrong(path, "a string", found)

    def items(self, *path: str) -> Iterator[Json]:
        """Yield the maps of the list at *path*; raise EnvironmentProblem for any other type."""
        found = self.field(*path)
        if found is None:
            return
        if not isinstance(found, list):
            raise self._wrong(path, "a list", found)
        for at, each in enumerate(found):
            if not isinstance(each, dict):
                raise self._wrong((*path, at), "a map", each)
            yield each

    def names(self, *path: str) -> tuple[str, ...]:
        """Return the names of the entries of the list at *path*; raise EnvironmentProblem for any other type."""
        return tuple(self.text(*path, at, "name") for at, _ in enumerate(self.items(*path)))

    def _wrong(self, path: tuple[str | int, ...], expected: str, found: object) -> EnvironmentProblem:
        kind = type(found).__name__
        return EnvironmentProblem(f"{self.origin}: {format_path(path)}: expected {expected}, found {kind}")


def read_objects(path: str) -> Iterator[KubernetesObject]:
    """Yield every known object of a file with one or more documents or Lists; ``-`` is standard input."""
    origin = "standard input" if path == _STANDARD_INPUT else path
    found = is_docker_config = False
    data = read_file_or_input(path)
    for value in _documents(data, origin):
        items = value.get("items") if str(value.get("kind", "")).endswith("List") else [value]
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.get("kind") in tuple(ObjectKind):
                found = True
                yield KubernetesObject(origin=origin, kind=ObjectKind(item["kind"]), value=item)
        is_docker_config = is_docker_config or ("auths" in value and "kind" not in value)
    if found:
        return
    wrong = "is empty" if not data.strip() else "found no Pod, workload, Secret or ServiceAccount"
    if is_docker_config:
        raise EnvironmentProblem(f"{origin}: found a docker config; give it with --docker-config FILE")
    raise EnvironmentProblem(f"{origin}: {wrong}; expected the output of 'kubectl get -o yaml'")


def seconds_of(time: object) -> float | None:
    """Return a time of the API in seconds since 1970; None if it is not a time."""
    if not isinstance(time, str):
        return None
    try:
        return parse_time(time) / 1e9
    except TimeError:
        return None


def read_file(path: str) -> bytes:
    """Return the bytes of a file; raise EnvironmentProblem with its path if it cannot be read."""
    try:
        return read_path(path)
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read: {go_strerror(error)}") from None


def read_file_or_input(path: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``; raise EnvironmentProblem as ``read_file`` does."""
    if path != _STANDARD_INPUT:
        return read_file(path)
    try:
        return read_stream(standard_input())
    except OSError as error:
        raise EnvironmentProblem(f"standard input: cannot be read: {go_strerror(error)}") from None


def _documents(data: bytes, origin: str) -> Iterator[Json]:
    """Yield the documents of a file; ``---`` at the start of a line always begins a new one."""
    before = 0
    for chunk in re.split(rb"(?m)^---(?=\s|$)", data):
        try:
            value = read_document(chunk).value
        except DocumentError:
            raise _unreadable(origin, before, chunk) from None
        before += chunk.count(b"\n")
        if isinstance(value, dict):
            yield value


def _unreadable(origin: str, before: int, chunk: bytes) -> EnvironmentProblem:
    """Return the error of a document after *before* lines, with the position in the file."""
    error: DocumentError | None = None
    try:
        # Only for an error: blank lines before each of many documents would take a time that grows with its square.
        read_document(b"\n" * before + chunk)
    except DocumentError as found:
        error = found
    return EnvironmentProblem(f"{origin}: {error}")


# Names of workloads as kubectl spells them, such as ``pod/web`` or ``deploy/web``.


class Resource(Value):
    """A kind's name in URLs and its other names: the API group, the plural, and kubectl's short name."""

    group: str
    plural: str
    short: str = ""

    @property
    def path(self) -> str:
        """The path of the group's version 1."""
        return f"/apis/{self.group}/v1" if self.group else "/api/v1"

    @property
    def rule_name(self) -> str:
        """The plural with its group, as in RBAC messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


RESOURCES = {
    ObjectKind.POD: Resource(group="", plural="pods", short="po"),
    ObjectKind.DEPLOYMENT: Resource(group="apps", plural="deployments", short="deploy"),
    ObjectKind.REPLICA_SET: Resource(group="apps", plural="replicasets", short="rs"),
    ObjectKind.REPLICATION_CONTROLLER: Resource(group="", plural="replicationcontrollers", short="rc"),
    ObjectKind.STATEFUL_SET: Resource(group="apps", plural="statefulsets", short="sts"),
    ObjectKind.DAEMON_SET: Resource(group="apps", plural="daemonsets", short="ds"),
    ObjectKind.JOB: Resource(group="batch", plural="jobs"),
    ObjectKind.CRON_JOB: Resource(group="batch", plural="cronjobs", short="cj"),
    ObjectKind.SECRET: Resource(group="", plural="secrets"),
    ObjectKind.SERVICE_ACCOUNT: Resource(group="", plural="serviceaccounts", short="sa"),
}


def spell_kinds(start: str) -> Iterator[tuple[str, ObjectKind]]:
    """Yield a spelling for each kind of workload of which one begins with *start*, and the kind."""
    for kind, resource in RESOURCES.items():
        spellings = (kind.lower(), resource.plural, resource.short)
        found = next((each for each in spellings if each and each.startswith(start.lower())), "")
        if kind.is_workload and found:
            yield found, kind


class Target(Value):
    """A workload of a cluster, by kind and name."""

    kind: ObjectKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def parse_target(text: str) -> Target | None:
    """Return the workload that *text* names, as kubectl reads it; None if it is not KIND/NAME.

    The kind is singular, plural or short, in any case, and its group may follow: ``deployments.apps/web``. A tag or a
    digest makes it an image, since no Kubernetes name contains a colon.
    """
    word, slash, name = text.partition("/")
    if not word or not slash or not name or any(each in name for each in "/:@"):
        return None
    plain, _, group = word.lower().partition(".")
    for kind, resource in RESOURCES.items():
        spellings = (kind.lower(), resource.plural, resource.short)
        if kind.is_workload and plain in spellings and group in ("", resource.group, f"v1.{resource.group}"):
            return Target(kind=kind, name=name)
    return None
