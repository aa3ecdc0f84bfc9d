"""Pods, secrets, accounts, roles and events as files and clusters give them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.node.settings import Node
from keyferry.images.provider.accounts import Pod
from keyferry.workloads.events import pull_events
from keyferry.workloads.node import find_docker_config
from keyferry.workloads.objects import Json, KubernetesObject, ObjectKind, Target, parse_target, read_objects
from keyferry.workloads.pods import ContainerRole, PodContainer, read_pod
from keyferry.workloads.rbac import AUDIENCE_VERB, node_manifests, user_manifests
from keyferry.workloads.request import Request
from keyferry.workloads.secrets import UnusedReason, choose_secrets
from support.kubelets import Processes


@pytest.mark.parametrize("lines", [0, 1, 40])
def test_an_error_has_its_line_in_the_whole_file(tmp_path: Path, lines: int) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("kind: Pod\n" + "# a line\n" * lines + "---\nkind: Secret\ndata: [\n")
    with pytest.raises(EnvironmentProblem, match=rf"objects\.yaml: line {lines + 5}\b"):
        list(read_objects(str(file)))


def test_every_document_of_many_is_read(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("---\n" * 3 + "kind: Pod\n" + "---\nkind: Secret\n" * 500)
    kinds = [each.kind for each in read_objects(str(file))]
    assert kinds == [ObjectKind.POD, *[ObjectKind.SECRET] * 500]


SPEC: Json = {
    "serviceAccountName": "puller",
    "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
    "containers": [{"name": "one", "image": "x"}, {"name": "two", "image": "y"}, {"name": "no image"}],
    "initContainers": [{"name": "zero", "image": "x"}],
}


def make(kind: ObjectKind, spec: Json, **metadata: str) -> KubernetesObject:
    """Return an object as read from a file."""
    return KubernetesObject(
        origin="file",
        kind=kind,
        value={"kind": str(kind), "metadata": {"name": "web", **metadata}, "spec": spec},
    )


@pytest.mark.parametrize("kind", [each for each in ObjectKind if each.is_workload])
def test_every_workload_has_its_pod(kind: ObjectKind) -> None:
    """The template of a cron job is one level deeper; a template has no name, UID or node."""
    spec: Json = {"template": {"spec": SPEC}}
    if kind is ObjectKind.POD:
        spec = {**SPEC, "nodeName": "node1"}
    elif kind is ObjectKind.CRON_JOB:
        spec = {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}
    found = read_pod(make(kind, spec, uid="u"), "shop")
    is_pod = kind is ObjectKind.POD
    assert found.pod == (
        Pod(namespace="shop", name="web", uid="u", service_account_name="puller")
        if is_pod
        else Pod(namespace="shop", name="", uid="", service_account_name="puller")
    )
    assert found.listed_secrets == ("a", "b")
    assert found.node_name == ("node1" if is_pod else "")
    assert (found.is_template, found.is_created) == (not is_pod, is_pod)
    assert found.by_image == {
        "x": (
            PodContainer(role=ContainerRole.INIT, name="zero", image="x"),
            PodContainer(role=ContainerRole.MAIN, name="one", image="x"),
        ),
        "y": (PodContainer(role=ContainerRole.MAIN, name="two", image="y"),),
    }
    assert found.without_image == (PodContainer(role=ContainerRole.MAIN, name="no image", image=""),)


def test_a_bare_pod_has_the_defaults_of_admission() -> None:
    """The namespace default, the account default, the deprecated name of the account's field."""
    assert read_pod(make(ObjectKind.POD, {})).pod == Pod(
        namespace="default", name="web", uid="", service_account_name="default"
    )
    assert read_pod(make(ObjectKind.POD, {"serviceAccount": "old"}, namespace="n")).pod == Pod(
        namespace="n", name="web", uid="", service_account_name="old"
    )


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(EnvironmentProblem, match=r"file: spec\.nodeName: expected a string, found int"):
        read_pod(make(ObjectKind.POD, {"nodeName": 5}))


TYPE = "kubernetes.io/dockerconfigjson"
CONTENT = b'{"auths":{"reg.io":{"username":"u","password":"p"}}}'


def secret(
    name: str = "mine", namespace: str = "shop", kind: str = TYPE, content: bytes = CONTENT
) -> PullSecret:
    return PullSecret(namespace=namespace, name=name, type=kind, data={".dockerconfigjson": content})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (secret("other"), UnusedReason.NOT_LISTED),
        (secret(namespace="team"), UnusedReason.OTHER_NAMESPACE),
        (secret(kind="Opaque"), UnusedReason.WRONG_TYPE),
        (secret(content=b""), UnusedReason.NO_DATA),
        (secret(content=b'{"auths":{}}'), UnusedReason.NO_ENTRIES),
    ],
    ids=lambda value: value if isinstance(value, UnusedReason) else "",
)
def test_a_secret_that_is_not_used_has_a_reason(given: PullSecret, reason: UnusedReason) -> None:
    (unused,) = choose_secrets([given], ("mine",), "shop").unused
    assert (unused.reason, unused.name, unused.namespace) == (reason, given.name, given.namespace)
    assert repr(given.name) in str(unused)


def test_a_secret_that_does_not_exist_is_absent_unless_a_file_has_it() -> None:
    """An empty reason stands for a secret that does not exist; any other refusal leaves it unknown."""
    chosen = choose_secrets([], ("mine", "hidden"), "shop", {"mine": "", "hidden": "no permission"})
    assert [(each.reason, each.name) for each in chosen.unused] == [(UnusedReason.ABSENT, "mine")]
    assert [each.name for each in chosen.missing] == ["hidden"]
    chosen = choose_secrets([secret()], ("mine",), "shop", {"mine": ""})
    assert (chosen.unused, chosen.missing) == ((), ())


def test_a_secret_that_cannot_be_read_is_named_by_its_error() -> None:
    (unused,) = choose_secrets([secret(content=b"{")], ("mine",), "shop").unused
    assert unused.reason is UnusedReason.UNREADABLE
    assert unused.error is not None
    assert unused.error.secret == "shop/mine"
    assert str(unused) == unused.error.message


Cluster = dict[tuple[str, str, str], Mapping[str, Any]]


def apply(cluster: Cluster, manifests: Iterable[Mapping[str, Any]]) -> None:
    """As 'kubectl apply': an object takes the place of the one with its kind, namespace and name."""
    for manifest in manifests:
        metadata = manifest["metadata"]
        cluster[manifest["kind"], metadata.get("namespace", ""), metadata["name"]] = manifest


def permits(cluster: Cluster, subject: str, verb: str, resource: str, account: str, namespace: str) -> bool:
    """As the RBAC authorizer decides for a binding's subject."""
    return any(
        verb in rule["verbs"]
        and resource in rule["resources"]
        and account in rule.get("resourceNames", [account])
        for (kind, place, _), binding in cluster.items()
        if kind.endswith("Binding") and place in ("", namespace)
        if subject in [each["name"] for each in binding["subjects"]]
        for rule in cluster[binding["roleRef"]["kind"], place, binding["roleRef"]["name"]]["rules"]
    )


def may_node(cluster: Cluster, audience: str, account: str) -> bool:
    return permits(cluster, "system:nodes", AUDIENCE_VERB, audience, account, "any")


def may_user(cluster: Cluster, user: str, account: str, namespace: str) -> bool:
    return permits(cluster, user, "create", "serviceaccounts/token", account, namespace)


def test_what_is_applied_for_one_audience_and_account_leaves_those_of_others() -> None:
    cluster: Cluster = {}
    pairs = [("a.test", "team-a"), ("a.test", "team-b"), ("b.test", "team-a"), ("a.testteam", "-a")]
    for audience, account in pairs:
        apply(cluster, node_manifests((audience,), account))
    assert all(may_node(cluster, *pair) for pair in pairs)
    assert not may_node(cluster, "b.test", "team-b")
    apply(cluster, node_manifests(("c.test", "d.test")))
    apply(cluster, node_manifests(("d.test", "e.test")))
    assert all(may_node(cluster, audience, "anyone") for audience in ("c.test", "d.test", "e.test"))
    assert all(may_node(cluster, *pair) for pair in pairs)


def test_the_same_permission_has_the_same_objects() -> None:
    cluster: Cluster = {}
    for _ in range(2):
        apply(cluster, node_manifests(("a.test",), "team-a"))
    assert len(cluster) == 2


def test_what_is_applied_for_one_user_leaves_what_others_may() -> None:
    cluster: Cluster = {}
    asked = [("ann", "app", "shop"), ("ann", "web", "shop"), ("bob", "app", "shop"), ("ann", "app", "mill")]
    for user, account, namespace in asked:
        apply(cluster, user_manifests(namespace, account, user))
    assert all(may_user(cluster, *each) for each in asked)
    assert not may_user(cluster, "bob", "web", "shop")
    assert not may_user(cluster, "bob", "app", "mill")


def test_both_forms_of_an_event_are_read() -> None:
    """An event of the newer API has a series and an eventTime."""
    old: Json = {
        "reason": "Failed",
        "type": "Warning",
        "message": "a\nb",
        "lastTimestamp": "2026-01-01T00:02:00Z",
        "count": 2,
    }
    new: Json = {
        "reason": "Pulling",
        "type": "Normal",
        "message": "c",
        "lastTimestamp": None,
        "eventTime": "2026-01-01T00:00:00Z",
        "series": {"count": 5, "lastObservedTime": "2026-01-01T00:01:00Z"},
    }
    first, second = pull_events([old, {"reason": "Scheduled"}, new])
    assert str(first) == "2026-01-01T00:01:00Z Normal Pulling (5 times): c"
    assert str(second) == "2026-01-01T00:02:00Z Warning Failed (2 times): a b"


def test_what_is_missing_is_empty_and_secrets_are_masked() -> None:
    (event,) = pull_events([{"reason": "Failed", "message": "password=hunter2-hunter2"}])
    assert (event.time, event.type, event.count) == ("", "", 1)
    assert "hunter2" not in str(event)
    assert str(event).startswith("unknown time")


def test_a_long_message_keeps_its_end() -> None:
    """There stands why a pull failed."""
    (event,) = pull_events(
        [{"reason": "Failed", "message": f"Failed to pull image {'x' * 100_000}: 401 Unauthorized"}]
    )
    assert event.message.endswith(": 401 Unauthorized")
    assert event.is_pull_failure
    assert len(event.message) < 10_000


def test_an_event_names_its_container_its_image_and_secrets_that_are_not_read() -> None:
    involved = {"name": "web", "fieldPath": "spec.initContainers{first}"}
    used: Json = {
        "reason": "Pulled",
        "message": 'Container image "r.io/a:v1" already present on machine and can be accessed by the pod',
        "involvedObject": involved,
    }
    unread: Json = {
        "reason": "FailedToRetrieveImagePullSecret",
        "message": "Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.",
    }
    first, second = pull_events([used, unread])
    assert (first.field, first.container, first.image) == ("initContainers", "first", "r.io/a:v1")
    assert first.is_use
    assert second.unread_secrets == ("a", "b")
    assert (second.field, second.container, second.image) == ("", "", "")


NOBODY = 65534


def missing_config(node: Node, docker_config: str | None) -> list[MissingInput]:
    """What is said to be missing of the node's docker config."""
    return list(find_docker_config(Request(docker_config=docker_config), node, None).missing)


@pytest.mark.parametrize("exists", [True, False])
def test_a_root_that_may_not_be_seen_may_hold_a_docker_config(
    processes: Processes, tmp_path: Path, *, exists: bool
) -> None:
    """Whether it does is known to those alone who may look; 'auto' looks no better, and a file given is all."""
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    path = root / "config.json"
    if exists:
        path.write_text("{}")
    processes.write(17, "kubelet", f"--root-dir={root}")
    node = Node(str(processes))
    assert missing_config(node, None) == (
        [MissingInput(input=LookupInput.DOCKER_CONFIG, name=str(path))] if exists else []
    )
    assert missing_config(node, "auto") == []
    was = os.geteuid()
    os.chmod(root, 0)
    os.seteuid(was or NOBODY)  # root may see everything, so be somebody else for the moment
    try:
        for option in (None, "auto"):
            (unseen,) = missing_config(node, option)
            assert unseen.name == str(path)
            assert "no permission to see whether it exists" in str(unseen)
        assert missing_config(node, "/given.json") == []
    finally:
        os.seteuid(was)
        os.chmod(root, 0o700)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pod/web", ObjectKind.POD),
        ("po/web", ObjectKind.POD),
        ("PODS/web", ObjectKind.POD),
        ("deploy/web", ObjectKind.DEPLOYMENT),
        ("deployments.apps/web", ObjectKind.DEPLOYMENT),
        ("deployment.v1.apps/web", ObjectKind.DEPLOYMENT),
        ("rs/web", ObjectKind.REPLICA_SET),
        ("sts/web", ObjectKind.STATEFUL_SET),
        ("ds/web", ObjectKind.DAEMON_SET),
        ("job/web", ObjectKind.JOB),
        ("cj/web", ObjectKind.CRON_JOB),
        ("cronjob/web", ObjectKind.CRON_JOB),
    ],
)
def test_a_workload_is_named_as_for_kubectl(text: str, kind: ObjectKind) -> None:
    assert parse_target(text) == Target(kind=kind, name="web")


@pytest.mark.parametrize(
    "text",
    [
        *("busybox", "library/busybox", "pod/web:v1", "pod/web@sha256:0", "pod/a/b", "pod/"),
        *("docker.io/pod/web", "deploy.batch/web", "secret/web", "sa/web", "/web", ""),
    ],
)
def test_everything_else_is_an_image(text: str) -> None:
    assert parse_target(text) is None
