"""Names of workloads as kubectl spells them, such as ``pod/web`` or ``deploy/web``."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.workloads.objects import ObjectKind

__all__ = ["Target", "parse_target"]


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
