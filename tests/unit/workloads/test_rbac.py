"""RBAC objects that are applied one after the other: each permits what it is for, and takes nothing away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from keyferry.workloads.rbac import AUDIENCE_VERB, node_manifests, user_manifests

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
