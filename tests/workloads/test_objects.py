"""Objects of files and clusters: where an error stands, how one is named, and what is permitted for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import keyferry
from keyferry.workloads.objects import ObjectKind, Target, parse_target
from keyferry.workloads.rbac import AUDIENCE_VERB, node_manifests, user_manifests
from support.commands import run_in_process
from support.kubelets import Processes
from support.kubernetes_api import pod, pull_secret


@pytest.mark.parametrize("lines", [0, 1, 40])
def test_an_error_has_its_line_in_the_whole_file(tmp_path: Path, lines: int) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("kind: Pod\n" + "# a line\n" * lines + "---\nkind: Secret\ndata: [\n")
    done = run_in_process("explain", "-f", str(file))
    assert done.returncode == 3
    assert f"objects.yaml: line {lines + 5}" in done.stderr


def test_every_document_of_many_is_read(tmp_path: Path) -> None:
    """Empty ones are none."""
    file = tmp_path / "objects.yaml"
    others = [pull_secret(f"other-{number}") for number in range(300)]
    documents = (pod(imagePullSecrets=[{"name": "regcred"}]), *others, pull_secret())
    file.write_text("---\n" * 3 + "\n---\n".join(map(json.dumps, documents)))
    found = keyferry.explain_image(keyferry.Request(filename=str(file)))
    assert [each.username for each in found.facts.answer.credentials] == ["user"]


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


NOBODY = 65534


def missing_config(node: keyferry.Node, docker_config: str | None) -> list[str]:
    """Return what is said to be missing of the node's docker config."""
    request = keyferry.Request(image="registry.example/app", docker_config=docker_config, node=node)
    return [str(each) for each in keyferry.resolve_inputs(request).docker_config.missing]


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
    node = keyferry.Node(str(processes))
    assert [str(path) in each for each in missing_config(node, None)] == [True] * exists
    assert missing_config(node, "auto") == []
    was = os.geteuid()
    os.chmod(root, 0)
    os.seteuid(was or NOBODY)  # root may see everything, so be somebody else for the moment
    try:
        for option in (None, "auto"):
            (unseen,) = missing_config(node, option)
            assert str(path) in unseen
            assert "no permission to see whether it exists" in unseen
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
