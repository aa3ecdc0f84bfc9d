"""What kubectl would read as a workload, and what is an image."""

from __future__ import annotations

import pytest

from keyferry.workloads.objects import ObjectKind, Target, parse_target


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
