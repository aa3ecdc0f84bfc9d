"""An API server, or a user who makes pods, that would harm whoever asks about the whole cluster.

Endless lists are in ``tests/workloads/test_listing.py``.
"""

from __future__ import annotations

import json
import re

import pytest

from support.bobs_cluster import BobsCluster
from support.kubernetes_api import Json, account, pod, pull_secret
from support.pod_world import pod_status
from support.pull_reports import Report, aged, failed, unauthorized, waiting
from support.schemas import check_document

IMAGE = "registry.example/team/app:v1"
PLANTED = "keyferry: planted"
EVIL = f"a\x1b[31m\x1b]0;t\x07\n{PLANTED}\r{PLANTED}\x9b2J\u202e\u2066{PLANTED}"
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def waiting_pod(report: Report, image: str = IMAGE, **spec: object) -> Json:
    made = aged(pod("web", "shop", (image,), **spec))
    return {**made, "status": pod_status(made, [report])}


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_no_escape_of_a_pod_reaches_the_terminal(bob: BobsCluster, output: str) -> None:
    """In the kubelet's message and reason, in names of images, nodes, accounts and secrets."""
    made = waiting_pod(
        Report(waiting(f"ErrImagePull {EVIL}", f'Back-off pulling image "{EVIL}": {EVIL}')),
        f"registry.example/{EVIL}",
        nodeName=EVIL,
        serviceAccountName=EVIL,
        imagePullSecrets=[{"name": EVIL}],
    )
    other = waiting_pod(Report(waiting(EVIL, EVIL)))
    bob.api.add({**other, "metadata": {**other["metadata"], "name": f"web{EVIL}"}}, made)  # type: ignore[dict-item]
    done = bob.explain("-A", "-o", output)
    both = done.stdout + done.stderr
    assert "2 of 2 pods wait" in both or output in ("json", "yaml"), both
    assert HARMFUL.search(both) is None, ascii(both)
    assert not [line for line in both.split("\n") if line.startswith(PLANTED)], both


@pytest.mark.parametrize("length", [300, 1_000_000])
def test_names_of_any_length_are_survived(bob: BobsCluster, length: int) -> None:
    """What is shown of a name has an end."""
    long = "x" * length
    image = f"registry.example/{long}:v1"
    bob.api.add(waiting_pod(failed(image, unauthorized(image)), image, nodeName=long))
    done = bob.explain("-A")
    assert done.returncode in (1, 6), done.stderr
    assert len(done.stdout) < 20_000 + 4 * min(length, 10_000)


WRONG: list[object] = [None, 7, "text", [7], {"a": 7}, [{"a": [7]}], [[]], {}]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize(
    "path",
    [
        ("metadata",),
        ("spec",),
        ("spec", "containers"),
        ("spec", "imagePullSecrets"),
        ("status",),
        ("status", "containerStatuses"),
        ("status", "conditions"),
        ("status", "phase"),
    ],
    ids=".".join,
)
def test_a_field_of_the_wrong_type_costs_one_pod(
    bob: BobsCluster, path: tuple[str, ...], wrong: object
) -> None:
    """The others are explained; there is no traceback, and the pod is noted if it cannot be read."""
    good, bad = (
        waiting_pod(failed(IMAGE, unauthorized(IMAGE))),
        waiting_pod(failed(IMAGE, unauthorized(IMAGE))),
    )
    bob.api.add(aged(account()), good)
    bad["metadata"] = {**bad["metadata"], "name": "zz"}  # type: ignore[dict-item] # a map
    *above, last = path
    found: Json = bad
    for each in above:
        found = found[each]  # type: ignore[assignment] # a map
    found[last] = wrong
    bob.api.objects["", "pods", "shop", "zz"] = bad
    done = bob.explain("-A", "-o", "json")
    assert done.returncode in (1, 6), done.stderr
    document = json.loads(done.stdout)
    check_document(document)
    assert document["waiting"] >= 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "items", [None, 7, "x", {"a": 1}, [7, None, "x", []], [{}], [{"metadata": None, "status": {}}]]
)
def test_items_of_any_type_are_survived(bob: BobsCluster, items: object) -> None:
    """A list of what are no pods has none that waits."""
    body = json.dumps({"kind": "PodList", "items": items, "metadata": {"continue": 7}}).encode()
    bob.api.respond = lambda _: (200, body)  # type: ignore[assignment, method-assign] # whatever is asked
    done = bob.explain("-A")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_no_secret_is_in_any_output(bob: BobsCluster) -> None:
    """Neither what a secret holds, nor what a kubelet's message repeats of it."""
    password = "kf-marked-password-hunter2"
    listed = [{"name": "regcred"}]
    why = f"Head https://alice:{password}@registry.example/v2/: 401 Unauthorized"
    bob.api.add(
        aged(account()),
        aged(pull_secret(login=f"alice:{password}")),
        waiting_pod(failed(IMAGE, why), imagePullSecrets=listed),
    )
    for output in ("table", "wide", "json", "yaml"):
        done = bob.explain("-A", "-o", output, "-v")
        assert done.stdout
        assert password not in done.stdout + done.stderr


def test_pasted_commands_hold_no_command_of_others(bob: BobsCluster) -> None:
    """The name of a pod comes from the server: a shell takes it as one word."""
    made = waiting_pod(failed(IMAGE, unauthorized(IMAGE)))
    made["metadata"] = {**made["metadata"], "name": "web; touch $(planted)"}  # type: ignore[dict-item] # a map
    bob.api.objects["", "pods", "shop", "web"] = made
    document = json.loads(bob.explain("-A", "-o", "json").stdout)
    (cause,) = document["causes"]
    assert "'pod/web; touch $(planted)'" in cause["example"]["command"]
