"""``--on-node``: the node's own answer, from the pod of its agent or from a debug pod.

The API server enforces RBAC and speaks WebSocket; what runs in the node's pods are real processes of keyferry.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api_server import Seen
from support.commands import Node
from support.cri_server import encode, running_cri
from support.cri_server import image as stored
from support.far_node import FarCluster
from support.host_root import CONFIG, HostRoot
from support.images import build, push
from support.kube import TOKEN
from support.kube_commands import Done
from support.kubelets import Processes
from support.kubernetes_api import KubernetesApi, pod, pull_secret
from support.kubernetes_exec import Finished
from support.pages import ROOT, blocks, check_shown, prompts
from support.parts import root
from support.plugins import wait_until
from support.pod_world import pod_status
from support.pull_reports import failed, stamp, unauthorized
from support.records import REF, open_quickly, with_login
from support.registry import Registry, basic, running
from support.schemas import check_document

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

IMAGE = "registry.example/team/app:v1"
HOST = "registry.example"
AUTH = '{"registry.example": {"username": "AWS", "password": "kf-marked-node-password"}}'
DEBUG = ("--debug-image", "registry.example/keyferry:1")
LEFTOVER = {"keyferry.dev/debug": "on-node"}


@pytest.fixture
def far(far: FarCluster) -> FarCluster:
    """The pod's node has a provider for its registry, and no agent."""
    far.node.files.add("ecr", [f"{HOST}/team"], AUTH)
    return far


def document_of(done: Done) -> dict[str, Any]:
    """Return the explanation of the pod's one image, checked against the schema."""
    (found,) = json.loads(done.stdout)["pods"]
    (image,) = found["images"]
    explanation: dict[str, Any] = image["explanation"]
    check_document(explanation)
    return explanation


def debug_pods(api: KubernetesApi) -> list[str]:
    """Return the names of the debug pods that there are."""
    return [
        name
        for _, resource, _, name in api.objects
        if resource == "pods" and name.startswith("keyferry-node")
    ]


# Through the agent's pod.


def test_the_agents_pod_tells_what_only_the_node_has(far: FarCluster) -> None:
    """Its provider config and its plugin's answer; the verdict says whose they are, and what is not seen from there."""
    far.node.add_agent()
    done = far.explain()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == [
        "✓ a credential is found: user 'AWS' of provider ecr (from node 'node1')",
        f"  pod shop/web on node node1, container app: {IMAGE}",
        "  from node 'node1', by the node agent's pod kube-system/keyferry-abcde: provider config, plugins; not seen "
        "from there: docker config, the image and its record, the kubelet's start, the kubelet's environment",
    ]
    assert "keyferry can-pull pod/web -n shop --on-node\n" in done.stdout
    assert far.node.commands == [
        ("keyferry", "explain", IMAGE, "--service-account", "shop/default", "-o", "json")
    ]
    assert not any(seen.method == "POST" for seen in far.api.seen if "/pods" in seen.path)


def test_the_document_says_which_half_came_from_where(far: FarCluster) -> None:
    far.api.add(pod(imagePullSecrets=[{"name": "regcred"}]), pull_secret(login="bob:kf-marked-password"))
    far.node.add_agent()
    done = far.explain("-o", "json")
    found = document_of(done)
    assert [each["source"]["kind"] for each in found["credentials"]] == ["pull secret", "provider"]
    assert found["provenance"]["credentials"] == ["here", "node"]
    assert (found["provenance"]["pullSecrets"], found["provenance"]["config"]) == ("here", "node")
    assert found["node"]["through"] == "agent"
    assert found["node"]["pod"] == "kube-system/keyferry-abcde"
    assert found["config"]["path"] == str(far.node.files.config)
    assert found["config"]["notes"] == []
    assert "the image and its record" in found["node"]["notSeen"]
    assert "kf-marked" not in done.stdout + done.stderr


def test_the_callers_secrets_do_not_travel(far: FarCluster) -> None:
    """Not their data and not their hashes: the node gets the names of image, namespace and account."""
    far.api.add(pod(imagePullSecrets=[{"name": "regcred"}]), pull_secret(login="bob:kf-marked-password"))
    far.node.add_agent()
    assert far.explain().returncode == 0
    sent = [seen for seen in far.api.seen if "/exec" in seen.path or seen.method == "POST"]
    assert sent
    assert all("regcred" not in seen.path and "kf-marked" not in seen.path for seen in sent)
    assert all(b"kf-marked" not in seen.body for seen in sent)


def test_what_the_node_has_is_judged_here(far: FarCluster) -> None:
    """A pattern that nearly matches is the cause, with its cure in the node's file."""
    far.node.files.config.write_text(
        far.node.files.config.read_text().replace(f"{HOST}/team", f"{HOST}:5000/team")
    )
    far.node.add_agent()
    done = far.explain()
    assert "pattern 'registry.example:5000/team' of provider 'ecr' nearly matches" in done.stdout
    assert f"add this to matchImages of provider 'ecr' in {far.node.files.config}" in done.stdout
    assert '- "registry.example/team/app"' in done.stdout or '- "registry.example/team"' in done.stdout


def test_what_happened_stays_the_callers(far: FarCluster) -> None:
    """The status and the events are the API server's; the node has a credential, and tells how long it is kept."""
    report, web = failed(IMAGE, unauthorized(IMAGE)), far.api.objects["", "pods", "shop", "web"]
    web["status"] = pod_status(web, [report])
    far.api.add(*report.event_documents(web))
    far.node.add_agent()
    done = far.explain()
    assert done.returncode == 5, done.stdout
    assert done.stdout.startswith("✗ the registry refused the kubelet (401 Unauthorized, ")
    told = " ".join(done.stdout.split())
    assert "now the plugin gives user 'AWS' of provider ecr; the kubelet may hold an older answer" in told
    assert "(cache duration 1 h) (from node 'node1')" in told


def test_an_image_alone_needs_the_name_of_the_node(far: FarCluster) -> None:
    far.node.add_agent()
    done = far.run("explain", IMAGE, "--on-node")
    assert (done.returncode, done.stdout) == (3, "")
    assert "name the node to ask with --node NAME" in done.stderr
    done = far.run("explain", IMAGE, "--on-node", "--node", "node1", "-o", "json")
    found = json.loads(done.stdout)
    check_document(found)
    assert [each["username"] for each in found["credentials"]] == ["AWS"]
    assert [each["input"] for each in found["missing"]] == ["pod", "docker-config"]


def test_a_pod_on_no_node_has_nobody_to_ask(far: FarCluster) -> None:
    far.api.add(pod(nodeName=""))
    done = far.explain()
    assert done.returncode == 3
    assert "the pod is on no node yet" in done.stderr


def test_a_pod_on_another_node_is_not_asked_of_this_one(far: FarCluster) -> None:
    far.node.add_agent()
    done = far.explain("--node", "other")
    assert (done.returncode, done.stdout) == (3, "")
    assert "the pod is on node 'node1', not on 'other'" in done.stderr
    assert far.node.commands == []
    assert far.explain("--node", "node1").returncode == 0


def test_a_kubelet_here_with_the_nodes_name_is_not_the_node(far: FarCluster, processes: Processes) -> None:
    """Names such as node1 and minikube are those of many nodes: it is the cluster's that is asked."""
    far.node.add_agent()
    with processes.kubelet("--hostname-override=node1"):
        done = far.explain()
    assert "from node 'node1', by the node agent's pod" in done.stdout
    assert far.node.commands


# What ends with the command that would tell.


def test_a_question_that_depends_on_the_node_ends_with_the_command(far: FarCluster) -> None:
    """First how to ask the node, then how to ask it in a debug pod; each can be pasted."""
    done = far.run("explain", "pod/web", "-n", "shop")
    assert done.returncode == 6
    assert "    keyferry explain pod/web -n shop --on-node\n" in done.stdout
    done = far.run("explain", "pod/web", "-n", "shop", "--on-node")
    assert done.returncode == 6
    assert "no node agent runs on node 'node1'" in done.stdout
    assert (
        "    keyferry explain pod/web -n shop --on-node --agent off --debug-image REGISTRY/keyferry:"
        in done.stdout
    )


def test_a_refusal_names_verb_resource_and_namespace(far: FarCluster) -> None:
    far.node.add_agent()
    far.api.users[TOKEN].permitted.discard(("create", "pods/exec", "kube-system"))
    done = far.explain()
    assert done.returncode == 6
    assert (
        "node 'node1' gave no answer: no permission to create and get pods/exec in kube-system" in done.stdout
    )
    far.api.users[TOKEN].permitted.discard(("list", "pods", ""))
    assert "no permission to list pods: pods is forbidden" in far.explain().stdout
    far.api.permit(TOKEN, "list", "pods", "kube-system")
    far.api.permit(TOKEN, "create", "pods/exec", "kube-system")
    assert far.explain("--agent-namespace", "kube-system").returncode == 0


# Through a debug pod.


def test_a_debug_pod_is_shown_made_read_and_deleted(far: FarCluster) -> None:
    done = far.explain(*DEBUG)
    assert done.returncode == 0, done.stdout
    (made,) = far.node.pods
    spec: Any = made["spec"]
    assert (
        f"keyferry: makes pod default/{made['metadata']['name']} on node 'node1' from image "  # type: ignore[index] # a map
        "'registry.example/keyferry:1'"
    ) in done.stderr
    assert spec["nodeName"] == "node1"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] > 60
    assert spec["automountServiceAccountToken"] is False
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert (mount["readOnly"], mount["recursiveReadOnly"]) == (True, "IfPossible")
    assert "privileged" not in spec["containers"][0]["securityContext"]
    assert far.node.commands[0][:3] == ("keyferry", "explain", IMAGE)
    assert "--host-root /host" in " ".join(far.node.commands[0])
    assert "user 'AWS' of provider ecr (from node 'node1')" in done.stdout
    assert "by debug pod default/" in done.stdout
    assert debug_pods(far.api) == []


def test_the_agents_pod_is_preferred_and_agent_off_asks_a_debug_pod(far: FarCluster) -> None:
    """A note says that no debug pod is made, and how one is asked."""
    far.node.add_agent()
    for words in (("explain", "pod/web", "-n", "shop", "--on-node"), ("doctor", "--node", "node1")):
        done = far.run(*words, *DEBUG)
        assert done.returncode == 0, done.stdout
        assert (
            "no debug pod is made, since the node agent's pod kube-system/keyferry-abcde answers"
            in done.stderr
        )
        assert "--agent off asks a debug pod in its place" in done.stderr
        assert far.node.pods == []
        done = far.run(*words, *DEBUG, "--agent", "off")
        assert done.returncode in (0, 1), done.stdout
        assert "by debug pod default/" in done.stdout
        assert len(far.node.pods) == 1
        far.node.pods.clear()
        done = far.run(*words, "--agent", "off")
        assert (done.returncode, done.stdout) == (2, "")
        assert "add --debug-image IMAGE" in done.stderr


def test_the_hint_of_what_the_agent_does_not_see_asks_the_debug_pod(far: FarCluster) -> None:
    """The command that is printed is typed, with an image in the place of REGISTRY; it proposes nothing more."""
    far.node.add_agent()
    for done in (far.explain(), far.explain(*DEBUG)):
        (line,) = (each.strip() for each in done.stdout.splitlines() if "--agent off" in each)
        words = line.replace("REGISTRY", "registry.example").split()[1:]
        assert words[:5] == ["explain", "pod/web", "-n", "shop", "--on-node"]
        again = far.run(*words)
        assert "by debug pod default/" in again.stdout
        assert "ask it in a debug pod" not in again.stdout
    assert len(far.node.pods) == 2


def test_a_debug_pod_answers_where_the_agents_pod_may_not_be_asked(far: FarCluster) -> None:
    far.node.add_agent()
    far.api.users[TOKEN].permitted.discard(("create", "pods/exec", "kube-system"))
    done = far.explain(*DEBUG)
    assert done.returncode == 0
    assert "no permission to create and get pods/exec in kube-system" in done.stderr
    assert len(far.node.pods) == 1
    assert debug_pods(far.api) == []


@root
def test_a_debug_pod_finds_the_nodes_files_and_runs_its_plugin(far: FarCluster, tmp_path: Path) -> None:
    """By discovery below the host's root, which is the plugin's own root; the paths are the node's."""
    host = HostRoot(tmp_path / "host")
    host.add_plugin()
    far.node.host_root = str(host.folder)
    done = far.run("explain", "pod/web", "-n", "shop", "--on-node", *DEBUG, "-o", "json")
    assert done.returncode == 0, done.stdout
    found = document_of(done)
    assert [each["username"] for each in found["credentials"]] == ["node"]
    assert found["config"]["path"] == CONFIG
    health = json.loads(far.run("doctor", "--node", "node1", *DEBUG, "-o", "json").stdout)
    assert "plugins" in [section["title"] for section in health["sections"]]
    assert debug_pods(far.api) == []


def test_dry_run_prints_the_pod_and_makes_none(far: FarCluster) -> None:
    done = far.explain(*DEBUG, "--dry-run", "--privileged", "--debug-namespace", "ops")
    made = yaml.safe_load(done.stdout)
    assert (made["kind"], made["metadata"]["namespace"]) == ("Pod", "ops")
    assert "&id" not in done.stdout
    assert made["spec"]["containers"][0]["securityContext"]["privileged"] is True
    assert far.node.pods == []
    assert all(seen.method == "GET" for seen in far.api.seen if "/pods" in seen.path)


def test_dry_run_prints_no_pod_that_would_not_be_made(far: FarCluster) -> None:
    far.node.add_agent()
    for words in (
        ("explain", "pod/web", "-n", "shop", "--on-node"),
        ("can-pull", "pod/web", "-n", "shop", "--on-node"),
        ("doctor", "--node", "node1"),
    ):
        done = far.run(*words, *DEBUG, "--dry-run")
        assert (done.returncode, done.stdout) == (3, "")
        assert (
            "no debug pod would be made, since the node agent's pod kube-system/keyferry-abcde" in done.stderr
        )
        made = yaml.safe_load(far.run(*words, *DEBUG, "--dry-run", "--agent", "off").stdout)
        assert made["spec"]["nodeName"] == "node1"


def test_a_pod_that_waits_for_its_own_image_is_the_answer(far: FarCluster) -> None:
    far.node.waits = ("ErrImagePull", "pull access denied, repository does not exist")
    done = far.explain(*DEBUG)
    assert done.returncode == 6
    assert (
        "waits for its own image 'registry.example/keyferry:1' on node 'node1': ErrImagePull: pull access"
        in done.stdout
    )
    assert debug_pods(far.api) == []


QPS = "pull QPS exceeded"


@pytest.mark.parametrize(
    "waits",
    [
        [("ErrImagePull", QPS)],
        [("ErrImagePull", QPS), ("ImagePullBackOff", f'Back-off pulling image "r": ErrImagePull: {QPS}')],
        [("ErrImagePull", QPS), ("ImagePullBackOff", 'Back-off pulling image "r"')],
        [("CreateContainerError", "context deadline exceeded")],
    ],
    ids=["once", "backs off and tells why", "backs off", "not started at once"],
)
def test_a_pod_whose_wait_passes_is_waited_for(far: FarCluster, waits: list[tuple[str, str]]) -> None:
    """The kubelet's own limit of pulls says nothing about the image, and a runtime may be slow."""
    far.node.waits_first = tuple(waits)
    done = far.explain(*DEBUG)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"]
)
def test_a_container_that_is_never_started_ends_the_wait_early(
    far: FarCluster, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Long before the pod's own deadline, and with what the kubelet says."""
    monkeypatch.setattr("keyferry.workloads.debug_pod.MAX_NOT_STARTED_SECONDS", 0.2)
    message = "container has runAsNonRoot and\nimage will run as root, password=kf-marked-word"
    far.node.waits = (reason, message)
    done = far.explain(*DEBUG)
    assert done.returncode == 6
    told = " ".join(done.stdout.split())
    assert f"on node 'node1': {reason}: container has runAsNonRoot and image will run as root" in told
    assert "kf-marked" not in done.stdout
    assert debug_pods(far.api) == []


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (
            (
                "StartError",
                'exec: "keyferry":\nexecutable file not found in $PATH, password=kf-marked-word',
                128,
            ),
            'exited with status 128 (StartError: exec: "keyferry": executable file not found in $PATH',
        ),
        (("OOMKilled", "", 137), "exited with status 137 (OOMKilled)"),
        (("Error", "", 7), "exited with status 7: it wrote no document"),
    ],
    ids=["no keyferry", "no memory", "usual"],
)
def test_why_a_command_in_a_debug_pod_ended_is_told(
    far: FarCluster, ends: tuple[str, str, int], says: str
) -> None:
    """An image without keyferry never starts, and has no log."""
    far.node.ends = ends
    if ends[0] != "StartError":
        far.api.logs = defaultdict(bytes)
    done = far.explain(*DEBUG)
    assert done.returncode == 6
    assert says in " ".join(done.stdout.split())
    assert "kf-marked" not in done.stdout
    assert debug_pods(far.api) == []


def test_pod_security_and_missing_rights_are_named(far: FarCluster) -> None:
    far.api.pod_security = "baseline"
    said = far.explain(*DEBUG).stdout
    assert "no permission to create pods in default" in said
    assert 'violates PodSecurity "baseline:latest"' in said
    assert "pod-security.kubernetes.io/enforce=privileged" in said
    assert "the right to create pods" not in said
    far.api.pod_security = ""
    far.api.users[TOKEN].permitted.discard(("create", "pods", "default"))
    said = far.explain(*DEBUG).stdout
    assert 'User "bob" cannot create resource "pods"' in said
    assert "a debug pod needs the right to create pods in default" in said
    assert "pod-security.kubernetes.io/enforce" not in said
    far.api.permit(TOKEN, "create", "pods", "default")
    far.api.users[TOKEN].permitted.discard(("get", "pods/log", "default"))
    assert "no permission to get pods/log in default" in far.explain(*DEBUG).stdout
    assert debug_pods(far.api) == []


def test_another_refusal_speaks_for_itself(far: FarCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota or a webhook is neither a missing right nor pod security."""
    message = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4'
    body = json.dumps({"kind": "Status", "code": 403, "message": message}).encode()
    own = far.api.respond
    monkeypatch.setattr(far.api, "respond", lambda seen: (403, body) if seen.method == "POST" else own(seen))
    said = far.explain(*DEBUG).stdout
    assert "exceeded quota: q" in said
    assert "a debug pod needs" not in said


def test_what_cannot_be_deleted_is_told(far: FarCluster) -> None:
    """With the command that deletes it; the answer is shown all the same."""
    far.api.users[TOKEN].permitted.discard(("delete", "pods", "default"))
    done = far.explain(*DEBUG)
    assert done.returncode == 0
    (name,) = debug_pods(far.api)
    assert f"kubectl delete pod {name} -n default" in done.stderr
    assert "no permission to delete pods in default" in done.stderr


@pytest.mark.parametrize("is_well", [True, False], ids=["ends it", "is down"])
def test_a_deletion_that_is_only_accepted_is_waited_for(
    far: FarCluster, monkeypatch: pytest.MonkeyPatch, *, is_well: bool
) -> None:
    """The server keeps the pod until its node has ended it; of a node that does not, the command is told."""
    monkeypatch.setattr("keyferry.workloads.debug_pod.MAX_END_SECONDS", 60.0 if is_well else 0.1)
    far.api.store.has_kubelets = True
    asked: list[str] = []

    def end(seen: Seen) -> str:
        is_accepted = any(each.method == "DELETE" for each in far.api.seen)
        if is_accepted and seen.method == "GET":
            asked.append(seen.path)
            if is_well and len(asked) > 1:
                far.api.objects.pop(("", "pods", "default", seen.path.rpartition("/")[2]), None)
        return ""

    far.api.cut = end
    done = far.explain(*DEBUG)
    assert done.returncode == 0, done.stdout
    assert asked
    assert ("is still there, since its node has not ended it" in done.stderr) is not is_well
    assert ("try: kubectl delete pod keyferry-node-" in done.stderr) is not is_well
    assert bool(debug_pods(far.api)) is not is_well


def test_leftovers_are_deleted_by_the_next_run(far: FarCluster) -> None:
    """Those whose deadline is long over; not one that may be in use, nor a pod of others."""

    def leave(name: str, created: str, labels: dict[str, str]) -> None:
        metadata = {"name": name, "namespace": "default", "labels": labels, "creationTimestamp": created}
        spec = {"activeDeadlineSeconds": 180, "containers": [], "nodeName": "node1"}
        far.api.add({"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Failed"}})

    leave("keyferry-node-old", stamp(3600), LEFTOVER)
    leave("keyferry-node-young", stamp(60), LEFTOVER)
    leave("keyferry-node-other", stamp(3600), {})
    leave("keyferry-node-unknown", "yesterday", LEFTOVER)
    assert far.explain(*DEBUG).returncode == 0
    assert debug_pods(far.api) == ["keyferry-node-young", "keyferry-node-other", "keyferry-node-unknown"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["GET list", "POST pods", "GET pod", "GET log", "DELETE pod"])
def test_a_connection_that_is_cut_leaves_nothing_behind(
    far: FarCluster,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    when: str,
) -> None:
    """In each step, whether the server has done what it was told or not."""
    monkeypatch.setattr("keyferry.workloads.debug_pod.MAX_CREATE_SECONDS", 0.1)
    cut: list[str] = []

    def once(seen: Seen) -> str:
        path = seen.path.partition("/namespaces/default/pods")[2]
        kind = "log" if "/log" in path else "pod" if path.startswith("/") else "list" if path else "pods"
        if f"{seen.method} {kind}" != step or "/namespaces/default/" not in seen.path or cut:
            return ""
        cut.append(seen.path)
        return when

    far.api.cut = once
    done = far.explain(*DEBUG)
    assert cut
    assert done.returncode == (0 if step in ("GET list", "DELETE pod") else 6), done.stdout
    assert len(far.node.pods) == (0 if (step, when) == ("POST pods", "before") else 1)
    assert debug_pods(far.api) == []


def started(far: FarCluster) -> subprocess.Popen[bytes]:
    """Start to ask a debug pod, in a process of its own."""
    words = ("explain", "pod/web", "-n", "shop", "--on-node", *DEBUG)
    env, pipe = {**os.environ, **far.env}, subprocess.PIPE
    return subprocess.Popen([sys.executable, "-m", "keyferry", *words], env=env, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(far: FarCluster, number: signal.Signals) -> None:
    far.node.is_slow = True
    with started(far) as process:
        wait_until(
            lambda: any(seen.method == "GET" and "/pods/keyferry-node-" in seen.path for seen in far.api.seen)
        )
        process.send_signal(number)
        process.communicate(timeout=60)
    far.node.is_slow = False
    assert process.returncode == 128 + number
    assert debug_pods(far.api) == []


# A pod that the server makes after its client has gone.


@pytest.fixture
def slow_create(far: FarCluster) -> threading.Event:
    """Let the server make a pod only after it has answered that there is none to delete; set when it begins."""
    begun = threading.Event()

    def wait(seen: Seen) -> str:
        if seen.method == "POST" and seen.path.endswith("/pods"):
            begun.set()
            wait_until(lambda: any(each.method == "DELETE" for each in far.api.seen))
        return ""

    far.api.cut = wait
    return begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pod_that_is_made_after_a_signal_is_deleted(
    far: FarCluster, slow_create: threading.Event, number: signal.Signals
) -> None:
    with started(far) as process:
        assert slow_create.wait(60)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert len(far.node.pods) == 1
    assert debug_pods(far.api) == []
    assert b"waits up to 12 s for pod default/keyferry-node-" in said
    assert b"kubectl delete" not in said


@pytest.mark.usefixtures("slow_create")
def test_a_pod_that_is_made_after_a_timeout_is_deleted(far: FarCluster) -> None:
    done = far.explain(*DEBUG, "--timeout", "1")
    assert done.returncode == 6, done.stdout
    assert len(far.node.pods) == 1
    assert debug_pods(far.api) == []
    assert "kubectl delete" not in done.stderr


@pytest.mark.parametrize("how", ["cut", "gateway"])
def test_a_pod_that_may_still_be_made_is_told(
    far: FarCluster, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """With the command that deletes it: neither a lost connection nor a gateway says what the server does."""
    monkeypatch.setattr("keyferry.workloads.debug_pod.MAX_CREATE_SECONDS", 0.1)
    far.api.cut = lambda seen: "before" if seen.method == "POST" else ""
    if how == "gateway":
        own = far.api.respond
        far.api.cut = lambda _: ""
        monkeypatch.setattr(
            far.api, "respond", lambda seen: (504, b"") if seen.method == "POST" else own(seen)
        )
    done = far.explain(*DEBUG)
    assert done.returncode == 6, done.stdout
    told = done.stderr.splitlines()[-1]
    assert "may still be made, since the server has not answered" in told
    assert "try: kubectl delete pod keyferry-node-" in told


def test_a_pod_that_was_refused_is_not_waited_for(far: FarCluster) -> None:
    far.api.pod_security = "baseline"
    done = far.explain(*DEBUG)
    assert "waits up to" not in done.stderr
    assert sum(seen.method == "DELETE" for seen in far.api.seen) == 1


def test_several_images_are_one_pod(far: FarCluster) -> None:
    far.api.add(pod(images=[IMAGE, f"{HOST}/other/app:v2"]))
    done = far.explain(*DEBUG)
    assert done.returncode == 6, done.stdout
    assert [len(each["spec"]["containers"]) for each in far.node.pods] == [6]  # type: ignore[index] # a map
    assert "user 'AWS' of provider ecr" in done.stdout


def test_words_beside_the_document_do_no_harm(far: FarCluster) -> None:
    """A log has both streams: keyferry's messages stand before the lines of its document."""
    far.node.notes = b"keyferry: a note\nkeyferry: another\n"
    assert far.explain(*DEBUG).returncode == 0


def test_a_node_without_keyferry_in_its_pod_is_told(far: FarCluster) -> None:
    far.node.says = Finished(3, b"", b"keyferry: unknown command\n")
    far.node.add_agent()
    done = far.explain()
    assert done.returncode == 6
    assert "exited with status 3: keyferry: unknown command" in done.stdout


USED = "✓ the image is on the node and this pod may use it; nothing is pulled"


@pytest.mark.parametrize(
    ("secret", "login", "says"),
    [
        pytest.param("regcred", "bob:kf-marked-password", USED, id="the same"),
        pytest.param("regcred", "bob:kf-marked-other", USED, id="rotated"),
        pytest.param("another", "bob:kf-marked-password", USED, id="the same credential"),
        pytest.param(
            "another",
            "bob:kf-marked-other",
            "✓ 2 credentials are found; the first is user 'bob' of pull secret shop/another",
            id="a stranger",
        ),
    ],
)
def test_the_node_returns_the_record_and_the_caller_decides(
    far: FarCluster, tmp_path: Path, secret: str, login: str, says: str
) -> None:
    """By the names, the UIDs and the beginnings of hashes; no secret of the caller goes to the node."""
    metadata = {"name": "regcred", "namespace": "shop", "uid": "u1"}
    far.api.add(
        pod(imagePullSecrets=[{"name": secret}]),
        pull_secret("regcred", login=login, metadata=metadata),
        pull_secret("another", login=login),
    )
    root = tmp_path / "root"
    open_quickly(root).record_pulled(IMAGE, REF, with_login("bob", "kf-marked-password", uid="u1"))
    with running_cri(ImageStatus=lambda _: encode(stored(REF, IMAGE))) as runtime:
        far.node.cri, far.node.root = runtime.socket, str(root)
        done = far.explain(*DEBUG)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"{says} (from node 'node1')\n"), done.stdout
    assert (
        "provider config, plugins, the image and its record; not seen from there: docker config, "
        "the kubelet's start, the kubelet's environment" in done.stdout
    )
    assert all(
        "kf-marked" not in word and "regcred" not in word for words in far.node.commands for word in words
    )


def endless(files: Node) -> None:
    """Let the plugin write what is no response."""
    (files.bin_dir / "ecr").write_text("#!/bin/sh\necho '{}'\n")


@pytest.mark.parametrize(
    ("change", "case"),
    [
        pytest.param(lambda files: (files.bin_dir / "ecr").chmod(0o644), "unknown", id="not executable"),
        pytest.param(endless, "unknown", id="no response"),
        pytest.param(lambda files: files.add("second", [HOST]), "found", id="two"),
    ],
)
def test_both_halves_say_the_same_where_both_see(
    far: FarCluster, change: Callable[[Node], object], case: str
) -> None:
    """The agent's pod and a debug pod: one cause and one verdict, whoever tells the facts.

    More of them are in ``tests/explain/test_situations_from_afar.py``.
    Without a credential it is not known whether there is another one, in a docker config that neither sees here.
    """
    change(far.node.files)
    seen = ("verdict", "cause", "credentials", "failures", "traps", "provenance")
    far.node.add_agent()
    through_agent = document_of(far.explain("-o", "json"))
    del far.api.objects["", "pods", "kube-system", "keyferry-abcde"]
    through_debug_pod = document_of(far.explain(*DEBUG, "-o", "json"))
    assert {name: through_agent[name] for name in seen} == {name: through_debug_pod[name] for name in seen}
    assert through_agent["verdict"]["case"] == case
    assert bool(through_agent["cause"]) is (case == "unknown")
    assert (through_agent["node"]["through"], through_debug_pod["node"]["through"]) == ("agent", "debug-pod")


# Whether it can be pulled.


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that lets in the node's user, and the user of a pull secret."""
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({"AWS": "kf-marked-node-password", "bob": "kf-marked-password"})
        push(server, "team/app", "v1", build(b"hello"), basic("bob", "kf-marked-password"))
        yield server


def test_the_node_asks_the_registry_with_its_own_credentials(far: FarCluster, registry: Registry) -> None:
    """The password stays there: the caller sees the response, and who got it."""
    image = f"{registry.host}/team/app:v1"
    far.api.add(pod(images=[image]))
    far.node.files.add("local", [registry.host], AUTH.replace(HOST, registry.host))
    far.node.add_agent()
    words = ("can-pull", "pod/web", "-n", "shop", "--on-node")
    done = far.run(*words)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(
        f"yes: {image} can be pulled with AWS of provider local (from node 'node1')\n"
    )
    assert "from node 'node1', by the node agent's pod kube-system/keyferry-abcde" in done.stderr
    found = json.loads(far.run(*words, "-o", "json").stdout)
    (check,) = found["items"]
    check_document(check)
    assert check["provenance"]["attempts"] == ["node"]
    assert check["node"]["name"] == "node1"
    assert "kf-marked" not in json.dumps(found) + done.stdout + done.stderr


def test_the_pods_secrets_are_tried_from_here(far: FarCluster, registry: Registry) -> None:
    """Before the node's credentials, as the kubelet tries them; the node does not get them."""
    image = f"{registry.host}/team/app:v1"
    login = pull_secret(host=registry.host, login="bob:kf-marked-old-password")
    far.api.add(pod(images=[image], imagePullSecrets=[{"name": "regcred"}]), login)
    far.node.files.add("local", [registry.host], AUTH.replace(HOST, registry.host))
    far.node.add_agent()
    done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node", "-o", "json")
    assert done.returncode == 0, done.stdout
    (check,) = json.loads(done.stdout)["items"]
    assert check["provenance"]["attempts"] == ["here", "node"]
    assert [each["worked"] for each in check["attempts"]] == [False, True]


def test_a_node_whose_credential_is_refused_says_so(far: FarCluster, registry: Registry) -> None:
    image = f"{registry.host}/team/app:v1"
    far.node.files.add(
        "local", [registry.host], AUTH.replace(HOST, registry.host).replace("node-password", "wrong")
    )
    far.node.add_agent()
    far.api.permit(TOKEN, "list", "pods", "")
    done = far.run("can-pull", image, "--on-node", "--node", "node1")
    assert done.returncode == 6, done.stdout
    assert "unauthorized: authentication required" in done.stdout


def test_can_pull_without_the_node_ends_with_why(far: FarCluster) -> None:
    assert far.node.pods == []
    done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node", "--registry-timeout", "1")
    assert done.returncode == 6
    assert "no node agent runs on node 'node1'" in done.stderr


# The node at a glance.


def test_doctor_shows_the_node_as_the_node_tells_it(far: FarCluster) -> None:
    """Through the agent's pod: provider config and plugins, and what is not seen from there."""
    far.node.add_agent()
    done = far.run("doctor", "--node", "node1", "-o", "json")
    found = json.loads(done.stdout)
    check_document(found)
    assert found["toldBy"] == "node 'node1', by the node agent's pod kube-system/keyferry-abcde"
    titles = [section["title"] for section in found["sections"]]
    assert "provider config" in titles
    assert "kubelet" not in titles
    assert titles[-1] == "not seen"
    text = far.run("doctor", "--node", "node1").stdout
    assert "\nfrom node 'node1', by the node agent's pod kube-system/keyferry-abcde\n" in text
    (far.node.files.bin_dir / "ecr").unlink()
    done = far.run("doctor", "--node", "node1")
    assert done.returncode == 1
    assert "problem" in done.stdout.splitlines()[0]


def test_doctor_in_a_debug_pod_shows_all(far: FarCluster) -> None:
    done = far.run("doctor", "--node", "node1", *DEBUG, "-o", "json")
    titles = [section["title"] for section in json.loads(done.stdout)["sections"]]
    assert "not seen" not in titles
    assert "provider config" in titles
    assert far.node.commands == [("keyferry", "doctor", "-o", "json", "--host-root", "/host")]
    assert debug_pods(far.api) == []
    shown = yaml.safe_load(far.run("doctor", "--node", "node1", *DEBUG, "--dry-run").stdout)
    assert shown["spec"]["containers"][0]["command"] == list(far.node.commands[0])


def test_doctor_of_a_node_that_cannot_be_asked_says_why(far: FarCluster) -> None:
    done = far.run("doctor", "--node", "node1")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no node agent runs on node 'node1'" in done.stderr
    done = far.run("doctor", "--node", "node1", "--config", "x")
    assert done.returncode == 2
    assert "leave out the options for files" in done.stderr


@pytest.mark.parametrize("more", [(), DEBUG, (*DEBUG, "--dry-run")], ids=["agent", "debug pod", "dry run"])
def test_a_node_that_does_not_exist_is_told_to_who_may_get_nodes(
    far: FarCluster, more: tuple[str, ...]
) -> None:
    """Before a pod is made, which would wait for its node."""
    far.api.permit(TOKEN, "get", "nodes", "")
    done = far.run("doctor", "--node", "nope", *more)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "keyferry: node 'nope' does not exist\n"
    assert all(seen.method == "GET" for seen in far.api.seen)


def test_who_may_not_get_nodes_learns_that_no_agent_answers(far: FarCluster) -> None:
    done = far.run("doctor", "--node", "nope")
    assert done.returncode == 3
    assert "no node agent runs on node 'nope'" in done.stderr


# The page.


def test_the_page_shows_what_is_printed(far: FarCluster) -> None:
    """Its example is a run of this world; the debug pod that it describes can be shown."""
    far.node.add_agent()
    (block,) = (each for each in blocks("docs/node.md", "console") if "--on-node" in each.first)
    ((line, shown),) = prompts(block)
    done = far.run(*line.split()[1:])
    check_shown(ROOT / "docs" / "node.md", shown, done.stdout)
