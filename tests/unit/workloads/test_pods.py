"""Pods, out of a Pod or out of the template of a workload."""

from __future__ import annotations

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.images.provider.accounts import Pod
from keyferry.workloads.objects import Json, KubernetesObject, ObjectKind
from keyferry.workloads.pods import ContainerRole, PodContainer, read_pod

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
