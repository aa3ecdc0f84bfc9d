"""``keyferry explain -A``: the pods of a cluster that wait for an image, by cause."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import keyferry
from support.bobs_cluster import BobsCluster, bobs_cluster
from support.commands import run_in_process
from support.kube import TOKEN
from support.kube_commands import Done
from support.kubernetes_api import account, pod, pull_secret
from support.plugins import PATIENCE_SECONDS
from support.pod_world import pod_status
from support.pull_reports import aged, failed, no_such_host, not_found, running, unauthorized
from support.schemas import check_document
from support.terminal import Terminal
from support.waiting_world import (
    ECR,
    REGISTRY,
    RUNNING,
    WAITING,
    WaitingWorld,
    app,
    make_waiting_world,
)

# The entries of the world: how many pods, what is said, what it is about, and what to do.
CAUSES = [
    (
        30,
        "secret 'regcred', which the pod lists, does not exist in 'cart'",
        "in 3 namespaces: cart, checkout, shop",
        "create it",
    ),
    (
        25,
        r"refuses user 'alice' of pull secret billing/billing-login \(401",
        "for 2 h",
        "correct the password",
    ),
    (22, "no such image or tag", f"15 images of {REGISTRY}", "check the name and the tag"),
    (21, r"docker\.io limits the number of pulls.*429", r"docker\.io/library/redis:7", "wait"),
    (
        18,
        r"'AWS' of pull secret orders/ecr-token \(authorization token has expired\)",
        ECR,
        "renew the password of 'AWS' with 'aws ecr get-login-password', since ECR's tokens end after 12 hours",
    ),
    (17, f"the node cannot resolve {REGISTRY}", "all on node node-7", "check the name"),
    (
        16,
        "cannot reach registry.internal:5000: connection refused",
        "report:v2",
        "check the name and the port",
    ),
    (
        12,
        "does not let user 'ci-bot' of pull secret ci/ci-login",
        "private:v3",
        "check the name of the image",
    ),
    (12, "whether the kubelet has a credential cannot be told", "orders:2024-11", "add --config FILE"),
    (
        11,
        r"does not trust the certificate of harbor\.corp\.example",
        "web:v4",
        "let the node trust the authority",
    ),
    (7, "pull secret legacy/typo, .* is not base64", "app:v1", "write secret 'typo' again"),
    (6, r"the pod forbids to pull it \(imagePullPolicy: Never\)", "localhost/agent:dev", "ask the container"),
    (3, "InvalidImageName: .* must be lower case", "Team/App:v1", "correct the name in the pod"),
]


def document(done: Done) -> dict[str, Any]:
    """Return the output as a document, checked against its schema."""
    found = json.loads(done.stdout)
    check_document(found)
    assert isinstance(found, dict)
    return found


def blocks(done: Done) -> list[str]:
    """Return the blocks of the text, each as one line."""
    return [" ".join(block.split()) for block in done.stdout.strip().split("\n\n")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BobsCluster]:
    """The cluster with all that wait, which no test changes."""
    with bobs_cluster(tmp_path_factory.mktemp("whole")) as found:
        make_waiting_world(found.api)
        yield found


@pytest.fixture(scope="module")
def shown(whole: BobsCluster) -> Callable[..., Done]:
    """The command, for that cluster; what it printed once is not asked for again."""
    return cache(whole.explain)


@pytest.mark.parametrize("columns", [80, 120])
def test_two_hundred_pods_are_thirteen_lines_of_thought(shown: Callable[..., Done], columns: int) -> None:
    """The verdict first, then the most frequent cause; each with its image, how long, an example and what to do."""
    done = shown("-A", columns=columns)
    assert done.returncode == 1, done.stderr
    verdict, *causes, more = blocks(done)
    assert verdict == f"✗ {WAITING} of {WAITING + RUNNING:,} pods wait for an image, by 13 causes"
    assert more == "-o wide shows every cure with its commands, and the pods"
    for block, (number, said, about, cure) in zip(causes, CAUSES, strict=True):
        mark = "?" if "cannot be told" in said else "✗"
        assert block.startswith(f"{mark} {number} pods: "), block
        assert re.search(said, block), (said, block)
        assert re.search(about, block), (about, block)
        assert (f"→ {cure}" in block) is bool(cure), (cure, block)
        assert re.search(r"keyferry explain pod/web-\d+ -n [a-z]+( --on-node| --cri auto)?$", block), block
    for line in done.stdout.splitlines():
        assert len(line) <= columns or "keyferry explain" in line, line


def test_the_example_is_explained_by_its_command(whole: BobsCluster) -> None:
    """With the options of the question, so that it can be pasted; and it says the same."""
    (cause,) = document(whole.explain("-n", "billing", "--context", "test", "-o", "json"))["causes"]
    program, command, *words = cause["example"]["command"].split()
    assert (program, command, *words[-2:]) == ("keyferry", "explain", "--context", "test")
    alone = whole.explain(*words, "-o", "json")
    assert alone.returncode == 5
    explanation = json.loads(alone.stdout)["pods"][0]["images"][0]["explanation"]
    assert (explanation["cause"], explanation["cure"]) == (cause["cause"], cause["cure"])


def test_programs_get_all_of_it(whole: BobsCluster, shown: Callable[..., Done]) -> None:
    """As JSON, as YAML, and from Python."""
    found = document(shown("-A", "-o", "json"))
    assert (found["pods"], found["waiting"]) == (WAITING + RUNNING, WAITING)
    assert [each["pods"] for each in found["causes"]] == [number for number, *_ in CAUSES]
    first = found["causes"][0]
    assert first["namespaces"] == ["cart", "checkout", "shop"]
    assert first["nodes"] == [f"node-{at}" for at in range(1, 7)]
    assert first["images"] == [app()]
    assert (first["sure"], first["case"], len(first["examples"])) == (True, "no-credential", 20)
    assert first["said"].startswith("ImagePullBackOff: Back-off pulling image")
    as_yaml = yaml.safe_load(shown("-A", "-o", "yaml").stdout)
    assert [each["id"] for each in as_yaml["causes"]] == [each["id"] for each in found["causes"]]
    cluster = keyferry.ClusterOptions(kubeconfig=str(whole.kube.path))
    result = keyferry.explain_cluster(keyferry.Request(all_namespaces=True, cluster=cluster))
    assert [each.id for each in result.causes] == [each["id"] for each in found["causes"]]
    assert result.verdict is keyferry.PullVerdict.NO


def test_the_wide_form_has_all_cures_and_names(shown: Callable[..., Done]) -> None:
    """Everything that can be pasted, the kubelet's own words, namespaces, nodes and pods."""
    text = shown("-A", "-o", "wide").stdout
    assert "kubectl create secret docker-registry regcred -n cart --docker-server=registry.example" in text
    assert re.search(r"NAMESPACES\n  cart, checkout, shop\n", text)
    assert re.search(r"PODS\n  cart/web-001, .*and 10 more\n", text, re.DOTALL)
    assert "illegal base64 data at input byte 0" in text
    assert re.search(r"^  keyferry explain pod/web-001 -n cart$", text, re.MULTILINE)


def test_what_pods_share_is_read_once(bob: BobsCluster) -> None:
    """Each secret and each account; and the events of the examples alone."""
    make_waiting_world(bob.api)
    bob.explain("-A")
    paths = [seen.path for seen in bob.api.seen]
    for kind in ("secrets", "serviceaccounts"):
        read = [path for path in paths if f"/{kind}/" in path]
        assert len(read) == len(set(read)) > 5
    assert len(paths) < WAITING / 2


def test_without_the_right_to_read_secrets_the_kubelets_words_decide(
    bob: BobsCluster, shown: Callable[..., Done]
) -> None:
    """What needs no secret is as sure as before; where a secret decides, it is not known."""
    make_waiting_world(bob.api)
    before = document(shown("-A", "-o", "json"))
    bob.api.users[TOKEN].permitted = {("list", "pods", "*")}
    done = bob.explain("-A", "-o", "json")
    assert done.returncode == 1
    found = document(done)
    assert (found["waiting"], sum(each["sure"] for each in found["causes"])) == (WAITING, 8)
    for each in before["causes"]:
        if re.search("resolve|reach|trust|limits|no such image or|Never|InvalidImageName", each["text"]):
            assert each["id"] in [other["id"] for other in found["causes"]], each["text"]
    unsure = [each for each in found["causes"] if not each["sure"]]
    assert any("no permission to get secrets in billing" in each["text"] for each in unsure)


def test_secrets_that_may_not_be_read_are_one_cause(bob: BobsCluster) -> None:
    """Whatever their names and however many a pod lists: all that is known is what the kubelet says, and who may."""
    world = WaitingWorld(bob.api)
    lists = [(f"team-{at}", (f"team-{at}-login", "copy")[: 1 + at % 2]) for at in range(6)]
    for namespace, names in lists:
        world.add(1, namespace, failed(app(), unauthorized(app())), app(), secrets=names)
    forbidden = app("private:v3")
    world.add(1, "other", failed(forbidden, not_found(forbidden)), forbidden, secrets=("regcred",))
    bob.api.users[TOKEN].permitted = {("list", "pods", "*")}
    cause, other = document(bob.explain("-A", "-o", "json"))["causes"]
    assert (cause["pods"], cause["namespaces"]) == (6, [namespace for namespace, _ in lists])
    assert "pull secret 'team-0-login' (for example), which the pod lists" in cause["summary"]
    assert "no permission to get secrets" in cause["summary"]
    assert "whose user may get secrets there" in cause["cure"][0]["text"]
    assert other["namespaces"] == ["other"]


def test_the_names_of_one_pod_are_told_as_its_own(shown: Callable[..., Done]) -> None:
    """Of pods in several namespaces, with several images and on several nodes; what all have is told of all."""
    text = " ".join(shown("-A", columns=1_000).stdout.split())
    assert "does not exist in 'cart' (for example): the kubelet pulls without it" in text
    assert "create it in 'cart' (for example); the kubelet's next attempt uses it" in text
    assert f"{app('model:v5')} (for example)" in text
    assert "the pod is on node 'node-4' (for example), and" in text
    assert "pull secret billing/billing-login (401 Unauthorized)" in text
    wide = " ".join(shown("-A", "-o", "wide", columns=1_000).stdout.split())
    assert "does not exist in 'cart' (for example)" in wide
    alone = " ".join(shown("-n", "cart", columns=1_000).stdout.split())
    assert "(for example)" not in alone


def test_what_stands_alone_says_nothing_of_lines_that_are_not_shown(shown: Callable[..., Done]) -> None:
    """Those are in the wide form; a cure whose line explains the pod with another option is that command."""
    text = " ".join(shown("-A", columns=1_000).stdout.split())
    assert not re.search("write this|-saved|here with|and below|, there", text)
    assert "the kubelet tries again within five minutes" in text
    assert re.search(r"or ask the node itself keyferry explain pod/web-\d+ -n search --on-node", text)
    wide = shown("-A", "-o", "wide", columns=1_000).stdout
    assert "billing-login-saved.* keeps the secret as it is now" in wide


def test_the_summary_is_the_same_at_every_read(shown: Callable[..., Done]) -> None:
    """It has no ages, also where nothing is sure."""
    for cause in document(shown("-A", "-o", "json"))["causes"]:
        assert not re.search(r"\bago\b", cause["summary"]), cause["summary"]


def test_nothing_is_sure(bob: BobsCluster) -> None:
    """Exit 6: pods wait, and of no cause it is known that it is one."""
    world = WaitingWorld(bob.api)
    world.add(2, "shop", failed(app(), unauthorized(app())), app())
    done = bob.explain("-A")
    assert done.returncode == 6, done.stdout
    assert blocks(done)[0] == "? 2 of 2 pods wait for an image, by one cause"
    assert blocks(done)[1].startswith("? 2 pods: ")


def test_all_is_well(bob: BobsCluster) -> None:
    """Exit 0, also for a pod that has ended, is being deleted, or waits for something else."""
    assert bob.explain("-A").stdout == "✓ no pod runs or waits\n"
    ended = failed(app(), unauthorized(app()))
    for at, (phase, deleted) in enumerate([("Failed", ""), ("Pending", "2026-01-01T00:00:00Z")]):
        made = aged(pod(f"old-{at}"))
        made["status"] = {**pod_status(made, [ended]), "phase": phase}
        if deleted:
            made["metadata"] = {**made["metadata"], "deletionTimestamp": deleted}  # type: ignore[dict-item]
        bob.api.add(made)
    made = aged(pod("new"))
    made["status"] = pod_status(made, [])
    bob.api.add(made)
    done = bob.explain("-A")
    assert (done.returncode, done.stdout) == (0, "✓ 2 pods: none waits for an image\n")


def test_the_namespace_of_the_context_is_meant_unless_another_is_given(bob: BobsCluster) -> None:
    """The words of kubectl: nothing, -n, -l, --field-selector, --node and -A."""
    world = WaitingWorld(bob.api)
    world.add(1, "default", failed(app(), no_such_host(app())), app(), node="node-1")
    world.add(2, "shop", failed(app(), no_such_host(app())), app(), node="node-2")
    made = bob.api.objects["", "pods", "shop", "web-003"]
    made["metadata"]["labels"] = {"app": "web"}  # type: ignore[index] # a map

    def verdict(*words: str) -> str:
        return blocks(bob.explain(*words))[0]

    assert verdict() == "✗ 1 of 1 pod in namespace default waits for an image, by one cause"
    assert verdict("-n", "shop") == "✗ 2 of 2 pods in namespace shop wait for an image, by one cause"
    assert verdict("-n", "shop", "-l", "app=web").startswith("✗ 1 of 1 pod in")
    assert verdict("-A", "--field-selector", "metadata.name=web-002").startswith("✗ 1 of 1 pod waits")
    assert verdict("-A", "--node", "node-2").startswith("✗ 2 of 2 pods on node node-2 wait")
    assert verdict("-n", "empty") == "✓ no pod runs or waits in namespace empty"
    assert verdict("-A", "-l", "app=none") == "✓ no pod that is selected runs or waits"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-A", "pod/web"), "leave them out, or pod/web"),
        (("-l", "app=web", "registry.example/app"), "leave them out, or registry.example/app"),
        (("-A", "-f", "pod.yaml"), "leave them out, or -f FILE"),
        (("-A", "-n", "shop"), "give one of them"),
        (("--watch", "pod/web"), "--watch is for many pods"),
        (("-A", "--service-account", "shop/web"), "for one pod"),
        (("-A", "--here"), "name the node with --node NAME"),
        (("-n", "shop", "--here"), "name the node with --node NAME"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    bob: BobsCluster, words: tuple[str, ...], error: str
) -> None:
    """Before any server is asked."""
    done = bob.explain(*words)
    assert done.returncode == 2
    assert error in done.stderr


@pytest.mark.parametrize("option", ["--secret", "--docker-config", "--root", "--hosts-dir", "--config"])
def test_a_file_that_cannot_be_read_is_no_cause(bob: BobsCluster, tmp_path: Path, option: str) -> None:
    """It is a mistake in the question: exit 3, before any pod is listed."""
    make_waiting_world(bob.api)
    done = bob.explain("-A", option, str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (3, "")
    assert str(tmp_path / "none") in done.stderr
    assert not bob.api.seen


def secret_through_a_pipe(*secrets: dict[str, Any]) -> str:
    """Return a path from which secrets can be read once, as the shell's ``<(...)`` gives it."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        yaml.safe_dump_all(secrets, stream)
    return f"/dev/fd/{reading}"


def test_a_secret_of_a_file_counts_for_the_pods_that_list_it(bob: BobsCluster) -> None:
    """In its own namespace; of the pods of others, and of those that list another, the cause stays the same."""
    world, image = WaitingWorld(bob.api), app()
    for namespace, name in (("cart", "regcred"), ("bill", "regcred"), ("bill", "other")):
        world.add(1, namespace, failed(image, unauthorized(image)), image, secrets=(name,))
    path = secret_through_a_pipe(pull_secret("regcred", "bill", REGISTRY, "alice:kf-marked-password"))
    found = document(bob.explain("-A", "--secret", path, "-o", "json"))
    causes = {each["examples"][0]: each for each in found["causes"]}
    assert "'regcred', which the pod lists, does not exist in 'cart'" in causes["cart/web-001"]["text"]
    assert "alice" in causes["bill/web-002"]["text"]
    assert "'other', which the pod lists, does not exist in 'bill'" in causes["bill/web-003"]["text"]
    assert "is given" not in json.dumps(found)
    commands = [each["example"]["command"] for each in found["causes"]]
    assert all(command.endswith("--secret FILE") for command in commands), commands


def test_an_object_that_cannot_be_read_leaves_it_open(bob: BobsCluster) -> None:
    """It says nothing about why the pod waits."""
    world = WaitingWorld(bob.api)
    world.add(1, "shop", failed(app(), unauthorized(app())), app(), secrets=("odd",))
    world.add_secret("odd", "shop", "", data="none")
    done = bob.explain("-A", "-o", "json")
    (cause,) = document(done)["causes"]
    assert (done.returncode, cause["sure"], cause["case"]) == (6, False, "unknown")


def test_this_machines_files_count_for_one_node(bob: BobsCluster, tmp_path: Path) -> None:
    """With --here for the node that is named; those below a host root only if its kubelet tells which node it is."""
    world = WaitingWorld(bob.api)
    world.add(2, "shop", failed(app(), unauthorized(app())), app(), node="node-1")
    (tmp_path / "host").mkdir()
    here = bob.explain("-A", "--node", "node-1", "--here")
    assert here.returncode == 1, here.stdout
    below = bob.explain("-A", "--host-root", str(tmp_path / "host"))
    assert below.returncode == 6, below.stdout
    assert "no kubelet tells which node has the files below" in " ".join(below.stdout.split())


def test_python_users_are_told_what_explains_one_pod() -> None:
    """The request for many pods names none."""
    with pytest.raises(keyferry.EnvironmentProblem, match="many pods"):
        keyferry.explain_cluster(keyferry.Request(target="pod/web"))


def test_a_user_of_one_namespace_is_told_how_to_ask(bob: BobsCluster) -> None:
    """Who may not list all pods gets exit 5, the missing permission, and the next command to type."""
    bob.api.users[TOKEN].permitted = {("list", "pods", "shop")}
    done = bob.explain("-A", "--context", "test")
    assert (done.returncode, done.stdout) == (5, "")
    assert "no permission to list pods: pods is forbidden" in done.stderr
    assert "keyferry explain -n NAME --context test" in done.stderr
    assert bob.explain("-n", "shop").returncode == 0
    other = bob.explain("-n", "bank")
    assert other.returncode == 5
    assert "no permission to list pods in bank" in other.stderr
    assert "a user of some namespaces may ask about one of them: keyferry explain " in other.stderr
    assert "-n NAME" in other.stderr


def test_without_a_kubeconfig_the_next_step_is_named(tmp_path: Path) -> None:
    """Exit 3: there is no cluster to ask, and perhaps none was meant."""
    done = run_in_process("explain", cwd=None, HOME=str(tmp_path), KUBECONFIG="", KUBERC="")
    assert done.returncode == 3
    assert "found no kubeconfig" in done.stderr
    assert "keyferry explain IMAGE" in done.stderr


def test_a_server_that_is_gone_midway_is_no_answer(bob: BobsCluster) -> None:
    """Half of a cluster is not told as the whole: exit 6 and nothing on standard output."""
    make_waiting_world(bob.api)
    bob.api.script.extend([200, 200])
    answer = bob.api.respond

    def respond(seen: Any) -> tuple[int, bytes]:
        return (
            answer(seen)
            if len(bob.api.seen) < 1
            else (500, b'{"kind": "Status", "message": "etcd leader changed"}')
        )

    bob.api.respond = respond  # type: ignore[method-assign] # the server changes in the middle
    done = bob.explain("-A")
    assert (done.returncode, done.stdout) == (6, "")
    assert "cannot list pods: the server responded 500: etcd leader changed" in done.stderr


def test_a_pod_that_waits_for_two_images_is_one_pod(bob: BobsCluster) -> None:
    """In the verdict, and in a cause that both have."""
    first, second = app("first:v1"), app("second:v1")
    made = aged(pod("web", images=(first, second)))
    reports = [
        failed(first, no_such_host(first)),
        failed(second, no_such_host(second), container="c1"),
    ]
    made["status"] = pod_status(made, reports)
    bob.api.add(aged(account()), made)
    found = document(bob.explain("-A", "-o", "json"))
    assert found["waiting"] == 1
    assert [(each["pods"], each["images"]) for each in found["causes"]] == [(1, [first, second])]


def test_a_sidecar_that_waits_is_found_in_a_pod_that_runs(bob: BobsCluster) -> None:
    """No phase selects it; the image that runs is not named."""
    side = app("sidecar:v1")
    made = aged(pod("web", images=(app(), side)))
    made["status"] = {
        **pod_status(made, [running(app()), failed(side, no_such_host(side), container="c1")]),
        "phase": "Running",
    }
    bob.api.add(aged(account()), made)
    (cause,) = document(bob.explain("-A", "-o", "json"))["causes"]
    assert cause["images"] == [side]


def test_a_volume_that_is_an_image_is_what_its_containers_wait_for(bob: BobsCluster) -> None:
    """The container's state names the volume's image; of one pod alone the same is said."""
    model = app("model:v5")
    volume = {"name": "model", "image": {"reference": model}}
    WaitingWorld(bob.api).add(1, "ml", failed(model, no_such_host(model)), app(), volumes=[volume])
    (cause,) = document(bob.explain("-A", "-o", "json"))["causes"]
    assert (cause["images"], cause["sure"]) == ([model], True)
    assert cause["text"].startswith(f"the node cannot resolve {REGISTRY}")
    alone = bob.explain("pod/web-001", "-n", "ml")
    assert alone.stdout.startswith(f"✗ the node cannot resolve {REGISTRY}")
    assert f"image volume model: {model}" in " ".join(alone.stdout.split())


def watching(bob: BobsCluster, *words: str) -> subprocess.Popen[str]:
    """Start to watch, through a pipe."""
    command = [sys.executable, "-m", "keyferry", "explain", "--watch", "--interval", "0.05", *words]
    env = {**os.environ, **bob.env}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def test_watch_prints_what_changes(bob: BobsCluster) -> None:
    """First all, then each cause that is new, has more or fewer pods, or is gone; until it is interrupted."""
    world = WaitingWorld(bob.api)
    world.add(2, "shop", failed(app(), no_such_host(app())), app())
    with watching(bob, "-n", "shop") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("✗ 2 of 2 pods in namespace shop wait")
        lines = iter(process.stdout.readline, "")
        world.add(1, "shop", failed(app(), no_such_host(app())), app())
        assert any(
            re.search(r"^[\d:]{8} 3 pods \(2 before\): the node cannot resolve", line) for line in lines
        )
        other = app("other:v9")
        world.add(1, "shop", failed(other, not_found(other)), other)
        assert any(re.search(r"1 pod \(new\): the registry has no such image", line) for line in lines)
        # A server that is away for a while is asked again.
        bob.api.always = 503
        assert process.stderr is not None
        assert "the server responded 503" in process.stderr.readline()
        del bob.api.objects["", "pods", "shop", "web-004"]
        bob.api.always = 0
        assert any("no pod (1 before): the registry has no such image" in line for line in lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130


def test_watch_prints_documents_for_programs(bob: BobsCluster) -> None:
    """One after each change."""
    world = WaitingWorld(bob.api)
    world.add(2, "shop", failed(app(), no_such_host(app())), app())
    with watching(bob, "-n", "shop", "-o", "json") as process:
        assert process.stdout is not None

        def read() -> dict[str, Any]:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            text = "".join(itertools.takewhile(lambda line: line != "}\n", lines)) + "}"
            found = json.loads(text)
            check_document(found)
            assert isinstance(found, dict)
            return found

        assert read()["waiting"] == 2
        world.add(1, "shop", failed(app(), no_such_host(app())), app())
        assert read()["waiting"] == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130


def test_watch_redraws_a_terminal(bob: BobsCluster) -> None:
    """The newest answer in the same place; Ctrl-C ends it."""
    world = WaitingWorld(bob.api)
    world.add(2, "shop", failed(app(), no_such_host(app())), app())
    command = (sys.executable, "-m", "keyferry", "explain", "-n", "shop", "--watch", "--interval", "0.05")
    with Terminal(command, env=bob.env) as terminal:
        terminal.read_until("2 of 2 pods")
        world.add(1, "shop", failed(app(), no_such_host(app())), app())
        raw = terminal.read_until("3 of 3 pods")
        assert raw.count("\x1b[H\x1b[J") >= 2
        terminal.type("\x03")
        assert terminal.finish().status == 130


def test_watch_ends_if_the_first_list_fails(bob: BobsCluster) -> None:
    """There is nothing to follow."""
    bob.api.users[TOKEN].permitted = set()
    assert bob.explain("--watch", "-n", "shop").returncode == 5


def test_many_namespaces_may_have_one_cause(bob: BobsCluster) -> None:
    """Each has its own secrets and account, which are looked at."""
    world = WaitingWorld(bob.api)
    for at in range(40):
        world.add(1, f"team-{at}", failed(app(), unauthorized(app())), app(), secrets=("regcred",))
    (cause,) = document(bob.explain("-A", "-o", "json"))["causes"]
    assert (cause["pods"], len(cause["namespaces"]), cause["sure"]) == (40, 40, True)


def test_more_questions_than_are_explained_are_told_by_the_kubelets_words(
    bob: BobsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a cluster in which everything fails differently is answered all the same."""
    monkeypatch.setattr("keyferry.explain.cluster.questions.MAX_QUESTIONS", 3)
    make_waiting_world(bob.api)
    done = bob.explain("-A", "-o", "json")
    found = document(done)
    assert (found["waiting"], done.returncode) == (WAITING, 1)
    left = sum(each["pods"] for each in found["causes"] if each["text"].startswith("not looked at"))
    assert left > WAITING / 2
    assert f"the other {left} pods are told by what their kubelets say" in found["notes"][0]
