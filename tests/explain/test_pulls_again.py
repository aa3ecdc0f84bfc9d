"""``keyferry can-pull -A``: whether all that runs in a cluster can be pulled again."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import keyferry
from support.commands import WIDTH, Node
from support.fake_cloud import Received, Reply
from support.images import build, push
from support.kube import TOKEN
from support.kubernetes_api import account, pod, pull_secret
from support.pages import blocks, check_shown, prompts
from support.plugins import PATIENCE_SECONDS
from support.pulls_again_world import (
    ECR,
    EVERYTHING,
    HOST,
    LOGIN,
    OTHER,
    PASSWORD,
    PullsWorld,
    image,
    pulls_world,
)
from support.registry import basic, digest, running
from support.terminal import Terminal

GONE = "team/gone:v9"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PullsWorld]:
    """A cluster with a pull secret that is right."""
    with pulls_world(tmp_path) as made:
        made.images = {image(): {LOGIN}, image("nginx:1", OTHER): None}
        made.add_secret()
        yield made


def document(world: PullsWorld, *words: str) -> dict[str, Any]:
    """Return the document of ``can-pull``, which is checked against its schema."""
    found = json.loads(world.run(*words, "-o", "json").stdout)
    assert isinstance(found, dict)
    return found


def only_problem(world: PullsWorld, *words: str) -> dict[str, Any]:
    """Return the only problem."""
    (problem,) = document(world, "-A", *words)["problems"]
    assert isinstance(problem, dict)
    return problem


def test_yes_is_exit_code_0(world: PullsWorld) -> None:
    world.add_pods(3, image(), secrets=("regcred",))
    world.add_pods(2, image("nginx:1", OTHER))
    done = world.run("-A")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "✓ all of 2 images can be pulled again"
    assert "✓ 2 images can be pulled, 1 of them by anybody" in done.stdout


def test_an_image_is_counted_once(world: PullsWorld) -> None:
    """As what the worst of those who need it can do: the counts of the text are those of the document."""
    world.add_pods(1, image(), namespace="cart", secrets=("absent",))
    world.add_pods(1, image(), namespace="bill")
    world.add_pods(1, image("team/other:v1"), namespace="bill")
    world.add_pods(1, image("nginx:1", OTHER))
    text = world.run("-A").stdout
    assert "an image that cannot be pulled again: 1 of 3 images" in " ".join(text.split())
    assert "? 1 image: cannot tell from here" in text
    assert "✓ 1 image can be pulled" in text
    counts = document(world, "-A")["counts"]
    assert (counts["yes"], counts["no"], sum(counts["unknown"].values())) == (1, 1, 1)


def test_a_selection_of_nothing_says_so(world: PullsWorld) -> None:
    """It is no yes about the namespace; workloads are left out where pods are selected by node or field."""
    world.add_pods(1, image(GONE), secrets=("regcred",))
    for words, what in {
        ("-n", "shop", "-l", "app=none"): "pod or workload that is selected in namespace shop",
        ("-n", "shop", "--field-selector", "spec.nodeName=x"): "pod that is selected in namespace shop",
        ("-n", "shop", "--node", "x"): "pod in namespace shop on node x",
        ("-n", "empty"): "pod or workload in namespace empty",
    }.items():
        done = world.run(*words)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"✓ no {what} needs an image")


def test_what_cannot_be_pulled_is_told_by_reason(world: PullsWorld) -> None:
    """The verdict first, then each reason with its images, who needs them, what to do, and what explains one."""
    world.images[image("team/db:v2")] = {LOGIN}
    world.add_secret("old", "bank", "alice:kf-marked-old")
    world.add_pods(5, image(), secrets=("regcred",))
    world.add_pods(5, image(), namespace="bank", secrets=("old",))
    world.add_pods(2, image("team/db:v2"), namespace="bank", secrets=("old",))
    world.add_pods(4, image(GONE), secrets=("regcred",))
    world.add_pods(2, "Team/App:v1")
    done = world.run("-A")
    assert done.returncode == 1
    blocks = [" ".join(each.split()) for each in done.stdout.split("\n\n")]
    assert blocks[0] == "✗ 13 of 18 pods need an image that cannot be pulled again: 4 of 4 images"
    assert blocks[1] == (
        f"✗ 7 pods: {HOST} refuses user 'alice' of pull secret bank/old: does not accept the credential (status 401: "
        f"unauthorized: authentication required) 2 images: {image()}, {image('team/db:v2')}, in namespace bank "
        "→ correct the password of 'alice' keyferry explain pod/web-006 -n "
        "bank --check-registry"
    )
    assert blocks[2].startswith("✗ 4 pods: the registry has no such image or tag")
    assert f"{image(GONE)}, in namespace shop" in blocks[2]
    assert blocks[3].startswith("✗ 2 pods: InvalidImageName:")
    assert max(map(len, done.stdout.split("\n"))) <= 80


@pytest.mark.parametrize(
    ("name", "secrets", "code"),
    [
        (image(GONE), ("regcred",), 1),
        (image(), ("wrong",), 5),
        (image(), ("absent",), 5),
        ("Team/App:v1", (), 1),
        (image(), ("unreadable",), 1),
        (image(), ("wrong", "regcred"), 0),
        (image("nginx:1", OTHER), ("absent",), 0),
        # Only the node knows: no secret, none for this registry, or none at a cloud's registry.
        (image(), (), 6),
        (image("team/app:v1", OTHER), ("regcred",), 6),
        (image("team/app:v1", ECR), ("absent",), 6),
        ("127.0.0.1:9/team/app:v1", ("regcred",), 6),
    ],
)
def test_the_exit_code_tells_what_is_the_matter(
    world: PullsWorld, name: str, secrets: tuple[str, ...], code: int
) -> None:
    world.add_secret("wrong", login="alice:kf-marked-wrong")
    broken = base64.b64encode(b'{"auths": {"registry.example": {"auth": "!"}}}').decode()
    world.api.add(
        {
            "kind": "Secret",
            "metadata": {"name": "unreadable", "namespace": "shop"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": broken},
        }
    )
    world.add_pods(1, name, secrets=secrets)
    done = world.run("-A")
    assert done.returncode == code, done.stdout
    assert done.stdout[0] == {0: "✓", 6: "?"}.get(code, "✗")


def test_of_several_codes_the_most_severe_counts(world: PullsWorld) -> None:
    """As for the images of one pod: what is gone before what is refused, and that before what is unknown."""
    world.add_pods(1, image("team/app:v1", ECR))
    assert world.run("-A").returncode == 6
    world.add_secret("wrong", login="alice:kf-marked-wrong")
    world.add_pods(1, image(), secrets=("wrong",))
    assert world.run("-A").returncode == 5
    world.add_pods(1, image(GONE), secrets=("regcred",))
    assert world.run("-A").returncode == 1


def test_the_same_image_and_logins_are_one_question(world: PullsWorld) -> None:
    """Whichever pods, namespaces and secrets they come from, and however the name is spelled."""
    world.images[image("team/app:latest")] = {LOGIN}
    for namespace in ("one", "two", "three"):
        world.add_secret(f"copy-{namespace}", namespace)
        world.add_pods(3, image("team/app"), namespace=namespace, secrets=(f"copy-{namespace}",))
        world.add_pods(1, image("team/app:latest"), namespace=namespace, secrets=(f"copy-{namespace}",))
    world.add_secret("other", "four", f"bob:{PASSWORD}")
    world.add_pods(1, image("team/app"), namespace="four", secrets=("other",))
    found = document(world, "-A")
    path = f"{HOST}/v2/team/app/manifests/latest"
    assert Counter(world.asked("HEAD")) == {path: 2}
    (refused,) = found["problems"]
    assert refused["namespaces"] == ["four"]
    assert found["counts"]["requests"] == len(world.server.received)


def test_copies_of_one_bad_secret_are_one_entry(world: PullsWorld) -> None:
    world.images[image("team/db:v2")] = {LOGIN}
    for at in range(30):
        world.add_secret("regcred", f"team-{at:02d}", "alice:kf-marked-old")
        world.add_pods(
            2, image() if at % 2 else image("team/db:v2"), namespace=f"team-{at:02d}", secrets=("regcred",)
        )
    problem = only_problem(world)
    assert (problem["pods"], len(problem["namespaces"]), len(problem["images"])) == (60, 30, 2)
    assert len(world.asked("HEAD")) == 2
    assert "in 30 namespaces: team-00, team-01, team-02 and 27 more" in " ".join(
        world.run("-A").stdout.split()
    )


def test_many_reasons_have_an_end(world: PullsWorld) -> None:
    """Of the text; the others are counted, and wide and the documents have all."""
    for at in range(60):
        world.add_pods(1, image(f"team/app:v{at}"), secrets=(f"absent-{at}",))
    done = world.run("-A")
    assert done.stdout.count("✗ 1 pod: secret 'absent-") == 50
    assert "! and 10 more reasons, which -o wide shows" in done.stdout
    assert world.run("-A", "-o", "wide").stdout.count("✗ 1 pod: secret 'absent-") == 60
    assert len(document(world, "-A")["problems"]) == 60


def test_a_secret_that_is_gone_is_found(world: PullsWorld) -> None:
    """Renamed, or not copied to a new namespace."""
    world.add_pods(2, image(), namespace="moved", secrets=("regcred",))
    problem = only_problem(world)
    assert problem["outcome"] == "no"
    assert "secret 'regcred', which the pod lists, does not exist in 'moved'" in problem["text"]
    assert problem["command"] == "keyferry explain pod/web-001 -n moved --check-registry"


def test_a_secret_of_a_file_counts_for_the_pods_that_list_it(world: PullsWorld) -> None:
    """In its own namespace alone; a file that can be read once is enough for all of them."""
    for namespace, name in (("bill", "login"), ("cart", "login"), ("bill", "other")):
        world.add_pods(1, image(), namespace=namespace, secrets=(name,))
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        json.dump(pull_secret("login", "bill", HOST, LOGIN), stream)
    found = document(world, "-A", "--secret", f"/dev/fd/{reading}")
    assert [(each["namespaces"], each["outcome"]) for each in found["images"]] == [
        (["bill"], "yes"),
        (["bill"], "no"),
        (["cart"], "no"),
    ]
    assert {each["text"].partition(":")[0] for each in found["problems"]} == {
        "secret 'login', which the pod lists, does not exist in 'cart'",
        "secret 'other', which the pod lists, does not exist in 'bill'",
    }


def test_a_pod_that_is_replaced_gets_the_secrets_that_its_account_lists_now(world: PullsWorld) -> None:
    """Pods of a controller are created again; a pod without one stays as it is."""
    owner = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    for namespace, owners in (("shop", owner), ("lone", [])):
        world.api.add(account(namespace=namespace, secrets=("regcred",)))
        made = pod("web-1", namespace, (image(),))
        made["metadata"] = {"name": "web-1", "namespace": namespace, "ownerReferences": owners}
        world.api.add(made)
    found = document(world, "-A")
    assert sorted((each["outcome"], each["namespaces"]) for each in found["images"]) == [
        ("unknown", ["lone"]),
        ("yes", ["shop"]),
    ]


def test_images_that_are_never_pulled_or_have_ended_are_not_asked(world: PullsWorld) -> None:
    containers = [{"name": "app", "image": "localhost/agent:dev", "imagePullPolicy": "Never"}]
    world.api.add(pod("agent", containers=containers))
    world.api.add({**pod("job", images=(image(GONE),)), "status": {"phase": "Succeeded"}})
    debug = [{"name": "debug", "image": image(GONE)}]
    world.api.add(
        pod("web", containers=[{"name": "app", "image": image("nginx:1", OTHER)}], ephemeralContainers=debug)
    )
    volumes = [{"name": "data", "image": {"reference": image("data:v1", OTHER)}}]
    world.api.add(pod("data", images=(image("nginx:1", OTHER),), volumes=volumes))
    found = document(world, "-A")
    assert [each["image"] for each in found["images"]] == [image("data:v1", OTHER), image("nginx:1", OTHER)]
    assert found["counts"]["neverPulled"] == 1
    assert "1 pod with an image that is never pulled" in world.run("-A").stdout


@pytest.mark.parametrize(
    ("kind", "busy"),
    [
        ("Deployment", {"replicas": 2}),
        ("StatefulSet", {"replicas": 1}),
        ("DaemonSet", {"currentNumberScheduled": 3}),
        ("Job", {"active": 1}),
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}),
        ("CronJob", {"active": [{"name": "web-1"}]}),
    ],
)
def test_workloads_without_pods_count_too(world: PullsWorld, kind: str, busy: dict[str, Any]) -> None:
    """They get pods when they are scaled or started; pods that there are count for themselves."""
    world.api.add(account(secrets=("regcred",)))
    world.add_workload(kind, "idle", image(GONE))
    world.add_workload(kind, "busy", image("team/busy:v1"), **busy)
    problem = only_problem(world)
    assert problem["images"] == [image(GONE)]
    assert (problem["pods"], problem["workloads"]) == (0, 1)
    assert problem["example"] == {"namespace": "shop", "target": f"{kind.lower()}/idle"}
    first = world.run("-A").stdout.splitlines()[0]
    assert first.startswith("✗ the only workload without pods needs an image that cannot be pulled again")


def test_workloads_that_may_not_be_listed_are_named(world: PullsWorld) -> None:
    """The answer for the pods stays, and it is no yes: what the workloads need is not known."""
    world.api.users[TOKEN].permitted.clear()
    world.api.permit(TOKEN, "get list", "pods secrets serviceaccounts deployments")
    world.add_pods(1, image(), secrets=("regcred",))
    found = document(world, "-A")
    assert (found["outcome"], found["canPull"], found["counts"]["yes"]) == ("unknown", None, 1)
    (note,) = (each for each in found["notes"] if "not looked at" in each)
    assert note.startswith(
        "StatefulSets, DaemonSets, Jobs and CronJobs that have no pod were not looked at; the first: no permission to "
        "list statefulsets.apps"
    )
    done = world.run("-A")
    assert done.returncode == 6
    assert "? the only image can be pulled again, but not everything was looked at" in " ".join(
        done.stdout.split()
    )
    suite = ET.fromstring(world.run("-A", "-o", "junit").stdout).find("testsuite")
    assert suite is not None
    assert suite.get("skipped") == "1"


def test_without_the_right_to_list_pods_there_is_no_answer(world: PullsWorld) -> None:
    world.api.users[TOKEN].permitted.clear()
    done = world.run("-A")
    assert (done.returncode, done.stdout) == (5, "")
    assert "no permission to list pods" in done.stderr


def test_secrets_that_may_not_be_read_leave_it_open(world: PullsWorld) -> None:
    """Each is asked for once, and no answer is guessed."""
    world.api.users[TOKEN].permitted.clear()
    world.api.permit(TOKEN, "get list", EVERYTHING.replace("secrets", "nothing"))
    world.add_pods(20, image(), secrets=("regcred",))
    problem = only_problem(world)
    assert (problem["outcome"], problem["doubt"]) == ("unknown", "input")
    assert "no permission to get secrets in shop" in json.dumps(problem)
    assert sum("/secrets/" in each.path for each in world.api.seen) == 1
    done = world.run("-A")
    assert done.returncode == 6
    assert "→ use a context whose user may get secrets there, or add --secret FILE\n" in done.stdout


def test_secrets_that_may_not_be_read_are_one_reason(world: PullsWorld) -> None:
    """Whatever their names, and the name of one is told as an example's."""
    world.api.users[TOKEN].permitted.clear()
    world.api.permit(TOKEN, "get list", EVERYTHING.replace("secrets", "nothing"))
    for at in range(4):
        world.add_pods(1, image(), namespace=f"team-{at}", secrets=(f"team-{at}-login",))
    problem = only_problem(world)
    assert (problem["pods"], len(problem["namespaces"])) == (4, 4)
    text = " ".join(world.run("-A", columns=1_000).stdout.split())
    assert "pull secret 'team-0-login' (for example), which the pod lists" in text


def test_each_secret_and_account_is_read_once(world: PullsWorld) -> None:
    for at in range(20):
        world.add_pods(2, image(f"team/app:v{at}"), secrets=("regcred",))
    world.add_pods(20, image("nginx:1", OTHER))
    world.run("-A")
    read = Counter(
        each.path for each in world.api.seen if "/secrets/" in each.path or "accounts/" in each.path
    )
    assert set(read.values()) == {1}
    assert len(read) == 2


def test_the_budget_is_kept_and_what_was_not_asked_is_named(world: PullsWorld) -> None:
    """The images of most pods are asked first."""
    world.images |= {image(f"team/app:v{at}"): {LOGIN} for at in range(1, 10)}
    for at in range(1, 10):
        world.add_pods(at, image(f"team/app:v{at}"), secrets=("regcred",))
    done = world.run("-A", "--max-requests", "2")
    assert done.returncode == 6
    assert len(world.server.received) == 2
    assert "? cannot tell of 8 of 9 images whether they can be pulled again" in done.stdout
    words = " ".join(done.stdout.split())
    assert "8 images: not asked, or not to the end 8: " in words
    assert "the budget of requests (2) is used up" in words
    assert f"{image('team/app:v1')}, {image('team/app:v2')}, {image('team/app:v3')} and 5 more" in words
    found = document(world, "-A", "--max-requests", "2")
    assert found["counts"]["unknown"]["not-asked"] == 8
    assert [each["image"] for each in found["images"] if each["outcome"] == "yes"] == [image("team/app:v9")]


def test_an_image_counts_with_all_its_logins(world: PullsWorld) -> None:
    """For the order of the questions, which a budget ends; what was asked is not said not to be."""
    world.add_pods(3, image("nginx:1", OTHER))
    for namespace in ("one", "two"):
        world.add_secret("regcred", namespace, LOGIN if namespace == "one" else f"bob:{PASSWORD}")
        world.add_pods(2, image(), namespace=namespace, secrets=("regcred",))
    found = document(world, "-A", "--max-requests", "4")
    assert all(each.headers["host"] == HOST for each in world.server.received)
    assert (image(), "yes") in [(each["image"], each["outcome"]) for each in found["images"]]
    assert image("nginx:1", OTHER) in [
        each["image"] for each in found["images"] if each["doubt"] == "not-asked"
    ]
    words = " ".join(world.run("-A", "--max-requests", "1").stdout.split())
    assert f"{HOST} was not asked any more: the budget of requests (1) is used up" in words
    assert f"{OTHER} was not asked: the budget of requests (1) is used up" in words
    assert "i 1 request was sent" in words


@pytest.mark.parametrize("number", ["0", "-1", "many", "1.5"])
def test_a_budget_is_a_number_of_at_least_1(world: PullsWorld, number: str) -> None:
    done = world.run("-A", "--max-requests", number)
    assert done.returncode == 2
    assert "is not a number of at least 1" in done.stderr


def test_what_only_the_node_knows_is_asked_with_its_config(world: PullsWorld, tmp_path: Path) -> None:
    """The plugins are run here, once for all pods."""
    world.images[image("team/app:v1", ECR)] = {f"AWS:{PASSWORD}"}
    for at in range(5):
        world.add_pods(1, image("team/app:v1", ECR), namespace=f"team-{at}")
    problem = only_problem(world)
    assert (problem["doubt"], problem["registry"]) == ("node", ECR)
    assert "cannot tell from here" in world.run("-A").stdout
    folder = tmp_path / "node"
    folder.mkdir()
    node = Node(folder).add("ecr", [ECR], json.dumps({ECR: {"username": "AWS", "password": PASSWORD}}))
    found = document(world, "-A", *node.options())
    assert found["outcome"] == "yes"
    assert found["images"][0]["sources"] == ["provider ecr"]
    assert (folder / "bin" / "ecr.runs").read_text() == "run\n"
    assert "plugins are run on this machine" in " ".join(found["notes"])


def test_a_plugin_that_fails_is_exit_code_4(world: PullsWorld, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    node = Node(folder).add("ecr", [ECR], "{}", before="exit 3")
    world.add_pods(1, image("team/app:v1", ECR))
    (folder / "docker.json").write_text("{}")
    done = world.run("-A", *node.options(), "--docker-config", str(folder / "docker.json"))
    assert done.returncode == 4, done.stdout
    assert "plugin 'ecr'" in done.stdout
    assert "exited with status 3" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "images"),
    [
        (["-A"], ["bank", "shop"]),
        (["-n", "bank"], ["bank"]),
        (["-A", "-l", "app=web"], ["shop"]),
        (["-A", "--node", "node2"], ["bank"]),
        (["-A", "--field-selector", "spec.nodeName=node1"], ["shop"]),
        ([], []),
    ],
)
def test_pods_are_selected_as_by_kubectl(world: PullsWorld, words: list[str], images: list[str]) -> None:
    for namespace, node in (("shop", "node1"), ("bank", "node2")):
        made = pod("web", namespace, (image(f"{namespace}:v1", OTHER),), nodeName=node)
        metadata = made["metadata"]
        assert isinstance(metadata, dict)
        metadata["labels"] = {"app": "web" if namespace == "shop" else "db"}
        world.api.add(made)
    found = document(world, *words)
    assert [each["image"] for each in found["images"]] == [image(f"{each}:v1", OTHER) for each in images]
    if not images:
        assert found["outcome"] == "yes"
        assert found["selection"]["namespace"] == "default"


def test_a_tag_that_was_pushed_again_is_noted(world: PullsWorld) -> None:
    """The registry's digest is not the one that runs."""
    name = image("nginx:1", OTHER)
    for at, seen in enumerate((digest(name.encode()), digest(b"before"))):
        made = pod(f"web-{at}", images=(name if not at else image("nginx:2", OTHER),))
        made["status"] = {
            "phase": "Running",
            "containerStatuses": [
                {"name": "app", "imageID": f"{OTHER}/nginx@{seen}", "state": {"running": {}}}
            ],
        }
        world.api.add(made)
    world.images[image("nginx:2", OTHER)] = None
    done = world.run("-A")
    assert done.returncode == 0
    assert "1 image has another digest at the registry" in " ".join(done.stdout.split())
    assert image("nginx:2", OTHER) in done.stdout.split("push to the same tag")[1]
    images = document(world, "-A")["images"]
    assert [each["digest"] in each["runningDigests"] for each in images] == [True, False]


def test_junit_has_a_case_for_each_image(world: PullsWorld) -> None:
    world.add_pods(1, image(), secrets=("regcred",))
    world.add_pods(2, image(GONE), secrets=("regcred",))
    world.add_pods(1, image("team/app:v1", ECR))
    done = world.run("-A", "-o", "junit")
    suite = ET.fromstring(done.stdout).find("testsuite")
    assert done.returncode == 1
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    cases = {each.get("name"): each for each in suite}
    assert cases[image(GONE)].get("classname") == HOST
    failure = cases[image(GONE)].find("failure")
    assert failure is not None
    assert "has no such image" in str(failure.get("message"))
    assert "2 pods in shop" in str(failure.text)


def test_junit_tells_the_answers_for_one_image_apart(world: PullsWorld) -> None:
    """Several may need it with several logins: no two cases have one name."""
    world.add_pods(1, image(), secrets=("regcred",))
    world.add_pods(1, image(), namespace="bank", secrets=("regcred",))
    world.add_pods(1, image("app:v1", "nohost.example"))
    suite = ET.fromstring(world.run("-A", "-o", "junit").stdout).find("testsuite")
    assert suite is not None
    names = [f"{each.get('classname')} {each.get('name')}" for each in suite]
    assert len(names) == len(set(names)) == 3
    assert f"{HOST} {image()} (bank/pod/web-002)" in names
    (skipped,) = suite.iter("skipped")
    assert str(skipped.get("message")).startswith("http://")


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "junit"])
def test_every_format_has_the_same_exit_code(world: PullsWorld, output: str) -> None:
    world.add_pods(1, image(GONE), secrets=("regcred",))
    done = world.run("-A", "-o", output)
    assert done.returncode == 1
    assert image(GONE) in done.stdout


def test_wide_has_every_cure_with_its_commands(world: PullsWorld) -> None:
    world.add_pods(1, image(), namespace="moved", secrets=("regcred",))
    assert "kubectl create secret docker-registry regcred -n moved" not in world.run("-A").stdout
    assert "kubectl create secret docker-registry regcred -n moved" in world.run("-A", "-o", "wide").stdout


def test_a_pause_that_a_registry_asks_for_is_kept(world: PullsWorld) -> None:
    """Then the image is asked again; tests/pulls/test_many.py has every form of it."""
    asked: list[Received] = []

    def throttle(request: Received) -> Reply | None:
        asked.append(request)
        return Reply(429, headers={"Retry-After": "1"}) if len(asked) == 1 else None

    world.instead = throttle
    world.add_pods(1, image("nginx:1", OTHER))
    assert world.run("-A").returncode == 0
    assert len(asked) == 2


def test_mirrors_are_asked_as_the_runtime_asks_them(world: PullsWorld, tmp_path: Path) -> None:
    """If a file names them; each question is about the mirror and then the registry."""
    hosts = tmp_path / "hosts" / HOST
    hosts.mkdir(parents=True)
    mirror = f'[host."https://{OTHER}"]\n  capabilities = ["pull", "resolve"]\n'
    (hosts / "hosts.toml").write_text(f'server = "https://{HOST}"\n{mirror}')
    world.images = {image("team/db:v2"): {LOGIN}, image("team/app:v1", OTHER): {LOGIN}}
    for name in ("team/db:v2", "team/app:v1", GONE):
        world.add_pods(1, image(name), secrets=("regcred",))
    found = document(world, "-A", "--hosts-dir", str(hosts.parent))
    outcomes = {each["image"]: each["outcome"] for each in found["images"]}
    assert outcomes == {image("team/db:v2"): "yes", image("team/app:v1"): "yes", image(GONE): "no"}
    assert document(world, "-A")["counts"]["no"] == 2


def test_a_real_registry_that_no_longer_knows_the_password(world: PullsWorld, tmp_path: Path) -> None:
    """Nor has the image under its tag: each is found, and the rest is as it was."""
    with running(tmp_path / "registry") as registry:
        registry.set_users({"alice": PASSWORD})
        for name in ("app", "db"):
            push(registry, f"team/{name}", "v1", build(name.encode()), basic("alice", PASSWORD))
        world.add_secret("real", host=registry.host)
        for name in ("app:v1", "db:v1"):
            world.add_pods(3, f"{registry.host}/team/{name}", secrets=("real",))
        done = world.run("-A")
        assert done.returncode == 0, done.stdout
        world.add_pods(1, f"{registry.host}/team/app:v2", secrets=("real",))
        problem = only_problem(world)
        assert problem["images"] == [f"{registry.host}/team/app:v2"]
        assert world.run("-A").returncode == 1
        registry.set_users({"alice": "another"})
        problem = only_problem(world)
        assert (problem["pods"], len(problem["images"])) == (7, 3)
        assert world.run("-A").returncode == 5


def test_a_bound_that_is_reached_is_told(world: PullsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond it is unknown, so that the answer is no yes."""
    monkeypatch.setattr("keyferry.explain.cluster.uses.MAX_USES", 3)
    for at in range(5):
        world.images[image(f"app:v{at}", OTHER)] = None
        world.add_pods(2, image(f"app:v{at}", OTHER))
    done = world.run("-A")
    assert done.returncode == 6
    assert "4 images of other pods were not looked at" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "words",
    [
        ["-A", "-n", "shop"],
        ["-A", "pod/web"],
        ["-A", "-f", "pod.yaml"],
        ["-f", "pod.yaml"],
        ["-A", "--service-account", "shop/default"],
        ["-A", "--here"],
        ["nginx", "--max-requests", "5"],
        ["nginx", "-o", "junit"],
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_usage(world: PullsWorld, words: list[str]) -> None:
    done = world.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert not world.server.received


def test_a_file_that_cannot_be_read_is_no_doubt(world: PullsWorld, tmp_path: Path) -> None:
    """It is a mistake in the question."""
    world.add_pods(1, image(), secrets=("regcred",))
    for option in ("--secret", "--docker-config", "--hosts-dir"):
        done = world.run("-A", option, str(tmp_path / "none"))
        assert (done.returncode, done.stdout) == (3, "")
    assert not world.api.seen


def test_a_host_root_without_a_kubelet_is_no_node_of_all(world: PullsWorld, tmp_path: Path) -> None:
    """What the pods' nodes have is not known."""
    (tmp_path / "host").mkdir()
    world.add_pods(2, image())
    assert world.run("-A", "--host-root", str(tmp_path / "host")).returncode == 6


def test_without_a_cluster_the_error_says_what_is_missing(world: PullsWorld, tmp_path: Path) -> None:
    world.env["KUBECONFIG"] = str(tmp_path / "none")
    done = world.run("-A")
    assert done.returncode == 3
    assert "kubeconfig" in done.stderr.lower()


def test_python_has_the_same_answer(world: PullsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    world.add_pods(3, image(GONE), secrets=("regcred",))
    told: list[str] = []
    found = keyferry.check_cluster(keyferry.Request(all_namespaces=True), max_requests=10, tell=told.append)
    assert found.verdict is keyferry.PullVerdict.NO
    assert [(each.pods, each.images) for each in found.groups] == [(3, (image(GONE),))]
    assert found.requests == 3
    assert PASSWORD not in repr(found)
    assert told[-1] == "asked 1 of 1 questions"


def test_a_terminal_shows_what_is_done_and_clears_it(world: PullsWorld, tmp_path: Path) -> None:
    """In one line, on standard error."""
    world.add_pods(3, image("nginx:1", OTHER))
    command = (sys.executable, "-m", "keyferry", "can-pull", "-A")
    with Terminal(command, columns=80, cwd=tmp_path, env=world.env) as terminal:
        raw = terminal.finish().raw
    assert "asked 1 of 1 questions" in raw
    assert "asked" not in raw[raw.rindex("\033[J") :]
    assert "the only image can be pulled again" in raw[raw.rindex("\033[J") :]


def test_the_page_shows_what_a_cluster_gives(world: PullsWorld) -> None:
    """With an expired login in several namespaces, a deleted image, a secret that is gone, and a cloud's registry."""
    path = Path(__file__).resolve().parents[2] / "docs" / "pulls.md"
    (block,) = (each for each in blocks("docs/pulls.md", "console") if "can-pull -A" in each.text)
    ((line, shown),) = prompts(block)
    names = ("app:v1", "web:v4", "db:v2", "cache:v7", "report:v3")
    world.images |= {image(f"team/{each}"): {LOGIN} for each in names}
    for number, (namespace, name) in enumerate(itertools.product(("billing", "orders"), names), 3):
        world.add_pods(number, image(f"team/{name}"), namespace=namespace, secrets=("regcred",))
        world.add_secret("regcred", namespace, "alice:kf-marked-old")
    world.add_pods(12, image(), secrets=("regcred",))
    world.add_pods(4, image(GONE), secrets=("regcred",))
    world.add_workload("Deployment", "nightly", image("team/nightly:v1"))
    world.add_pods(3, image(), namespace="moved", secrets=("registry-login",))
    world.add_pods(20, image("nginx:1", OTHER))
    for at in range(6):
        world.add_pods(2, image(f"team/service-{at}:v1", ECR), namespace="services")
    done = world.run(*shlex.split(line)[2:], columns=int(WIDTH))
    assert done.returncode == 1
    check_shown(path, shown, done.stdout)


def test_an_interrupt_ends_the_requests(world: PullsWorld) -> None:
    """At once, although registries do not respond."""
    asked = Event()

    def hang(_: Received) -> Reply:
        asked.set()
        return Reply(after=PATIENCE_SECONDS)

    world.instead = hang
    for at in range(9):
        world.add_pods(1, image(f"app:v{at}", OTHER))
    command = [sys.executable, "-m", "keyferry", "can-pull", "-A"]
    env = {**os.environ, **world.env}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert asked.wait(PATIENCE_SECONDS)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == "keyferry: interrupted\n"
