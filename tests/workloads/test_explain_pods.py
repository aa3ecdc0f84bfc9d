"""``keyferry explain`` of pods and workloads: an API server over TLS that enforces RBAC."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.bobs_cluster import BobsCluster
from support.commands import Node, run_in_process
from support.kube import TOKEN
from support.kube_commands import Done
from support.kubelets import Processes
from support.kubernetes_api import Json, KubernetesApi, account, pod, pull_secret
from support.schemas import check_document

IMAGE = "registry.example/team/app:v1"
HOST = "registry.example"
EVERYTHING = (
    "pods secrets serviceaccounts events deployments replicasets replicationcontrollers statefulsets daemonsets jobs "
    "cronjobs"
)
TOKEN_ATTRIBUTES = """\
  tokenAttributes:
    serviceAccountTokenAudience: registry.test
    cacheType: Token
    requireServiceAccount: true
"""

Explain = Callable[..., Done]


@pytest.fixture
def api(bob: BobsCluster) -> KubernetesApi:
    """A server with an account; bob may read everything in shop."""
    bob.api.users[TOKEN].permitted.clear()
    bob.api.permit(TOKEN, "get list", EVERYTHING, "shop")
    bob.api.add(account())
    return bob.api


@pytest.fixture
def explain(bob: BobsCluster, tmp_path: Path) -> Explain:
    """The command as bob runs it, on a machine that has a docker login of its own and no kubelet."""
    home = tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    auth = base64.b64encode(b"laptop:pw").decode()
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": {HOST: {"auth": auth}}}))

    def run(*words: str, **env: str) -> Done:
        return run_in_process("explain", *words, cwd=None, **{**bob.env, "HOME": str(home), **env})

    return run


def documents(done: Done) -> list[dict[str, Any]]:
    """Return the explanation of each image of the one pod, checked against the schema."""
    (found,) = json.loads(done.stdout)["pods"]
    explanations = [each["explanation"] for each in found["images"]]
    for each in explanations:
        check_document(each)
    return explanations


def inputs(document: dict[str, Any]) -> list[str]:
    """Return the words for the missing inputs."""
    return [each["input"] for each in document["missing"]]


def users(document: dict[str, Any]) -> list[str]:
    """Return the user names that the kubelet tries."""
    return [each["username"] for each in document["credentials"]]


def test_the_pods_own_secret_decides(api: KubernetesApi, explain: Explain) -> None:
    """Its credential is tried first whatever the node has, so the answer is sure from anywhere."""
    api.add(pod(imagePullSecrets=[{"name": "regcred"}]), pull_secret(login="bob:pass-word"))
    done = explain("pod/web", "-n", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "✓ a credential is found: user 'bob' of pull secret shop/regcred",
        f"  pod shop/web on node node1, container app: {IMAGE}",
    ]
    assert "pass-word" not in done.stdout + done.stderr


@pytest.mark.parametrize("word", ["pod/web", "po/web", "pods/web", "Pod/web"])
def test_kinds_are_spelled_as_for_kubectl(api: KubernetesApi, explain: Explain, word: str) -> None:
    """Singular, plural and short; the tag makes it an image."""
    api.add(pod())
    assert f"  pod shop/web on node node1, container app: {IMAGE}\n" in explain(word, "-n", "shop").stdout
    image = f"{word}:v1".lower().replace("pods", "pod").replace("po/", "pod/")
    assert f"  image {image}\n" in explain(image).stdout


def test_a_laptops_own_files_are_not_the_nodes(api: KubernetesApi, explain: Explain, node: Node) -> None:
    """Its docker login, its provider config in the environment and its usual places count for nothing."""
    api.add(pod())
    node.add("local", [HOST], '{"registry.example": {"username": "laptop", "password": "p"}}')
    env = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    for option in ([], ["--docker-config", "auto"]):
        done = explain("pod/web", "-n", "shop", "-o", "json", *option, **env)
        assert done.returncode == 6, done.stdout
        (document,) = documents(done)
        assert document["credentials"] == []
        assert document["decision"]["outcome"] == "unknown"
        assert "node" in inputs(document)
    assert not (node.bin_dir / "local.runs").exists()
    text = explain("pod/web", "-n", "shop", **env).stdout
    assert "the pod is on node 'node1', and no kubelet runs on this machine" in text
    assert "add --config FILE and --bin-dir DIR of the node, or --here if this machine is the node" in text
    here = explain("pod/web", "-n", "shop", "--here", "-o", "json", "--docker-config", "auto", **env)
    assert here.returncode == 0, here.stderr
    assert users(documents(here)[0]) == ["laptop", "laptop"]
    given = explain("pod/web", "-n", "shop", "-o", "json", *node.options())
    assert users(documents(given)[0]) == ["laptop"]


@pytest.mark.parametrize(("name", "is_node"), [("node1", True), ("NODE1", True), ("node2", False)])
def test_the_kubelet_that_runs_here_says_which_node_this_is(
    api: KubernetesApi, explain: Explain, node: Node, processes: Processes, name: str, *, is_node: bool
) -> None:
    """As the kubelet names it: its flag, in lower case."""
    node.add("own", [HOST], '{"registry.example": {"username": "u", "password": "p"}}')
    api.add(pod())
    flags = [
        f"--image-credential-provider-config={node.config}",
        f"--image-credential-provider-bin-dir={node.bin_dir}",
    ]
    with processes.kubelet(*flags, f"--hostname-override={name}"):
        done = explain("pod/web", "-n", "shop", KEYFERRY_PROC=str(processes))
    assert (done.returncode == 0) is is_node, done.stdout
    if not is_node:
        assert done.returncode == 6
        assert "the pod is on node 'node1', and this machine is node 'node2'" in done.stdout


def test_containers_with_one_image_are_explained_together(api: KubernetesApi, explain: Explain) -> None:
    """Every container, init container and ephemeral container has its explanation."""
    init = [{"name": "setup", "image": IMAGE}, {"name": "fetch", "image": "busybox"}]
    api.add(pod(initContainers=init, ephemeralContainers=[{"name": "debug", "image": "Not A Name"}]))
    done = explain("pod/web", "-n", "shop")
    first, same = done.stdout.split("\n\n")[:2]
    assert first.startswith("✗ InvalidImageName: 'Not A Name' is not an image name")
    assert first.endswith("\n  pod shop/web on node node1, ephemeral container debug: Not A Name")
    together = f"init container setup, container app: {IMAGE}; init container fetch: busybox"
    assert same.endswith(f"\n  pod shop/web on node node1, {together}")
    assert done.returncode == 1


def test_the_accounts_secrets_are_those_of_new_pods(api: KubernetesApi, explain: Explain) -> None:
    """A template has what admission adds to its pods; a pod that was created before does not."""
    api.add(account(secrets=["regcred"]), pull_secret(), pod(), deployment())
    done = explain("deploy/web", "-n", "shop", "-o", "json")
    assert users(documents(done)[0]) == ["user"]
    done = explain("pod/web", "-n", "shop")
    assert done.returncode == 6
    assert done.stdout.startswith(
        "? no credential is found as far as is known: the service account 'default' lists the pull secret "
        "'regcred', but the pod does not"
    )
    assert (
        '    saved=$(mktemp web-saved.XXXXXX) && kubectl get pod web -n shop -o yaml > "$saved" && '
        'kubectl replace --force -f "$saved"\n' in done.stdout
    )


def deployment(kind: str = "Deployment", **spec: object) -> Json:
    """Return a workload whose template has the image."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": IMAGE}]},
    }
    whole: Json = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    if kind == "ReplicationController":
        whole["selector"] = {"app": "web"}
    if kind == "CronJob":
        whole = {"jobTemplate": {"spec": {"template": template}}}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "owner"},
        "spec": whole,
    }


def failing_pod(owner: str) -> Json:
    """Return a pod of a workload that waits for its image."""
    made = pod("web-1", images=("registry.example/team/app:v2",))
    labels = {"app": "web"}
    made["metadata"] = {
        "name": "web-1",
        "namespace": "shop",
        "labels": labels,
        "ownerReferences": [{"uid": owner}],
    }
    made["status"] = {
        "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    }
    return made


@pytest.mark.parametrize(
    ("word", "kind", "between"),
    [
        ("deploy/web", "Deployment", "ReplicaSet"),
        ("rs/web", "ReplicaSet", ""),
        ("rc/web", "ReplicationController", ""),
        ("sts/web", "StatefulSet", ""),
        ("daemonset/web", "DaemonSet", ""),
        ("jobs/web", "Job", ""),
        ("cj/web", "CronJob", "Job"),
        ("deployments.apps/web", "Deployment", "ReplicaSet"),
    ],
)
def test_a_workload_is_its_failing_pod_or_else_its_template(
    api: KubernetesApi, explain: Explain, word: str, kind: str, between: str
) -> None:
    """By the owner, through a replica set or a job; pods of others that have the labels do not count."""
    api.add(deployment(kind), failing_pod("somebody else"))
    done = explain(word, "-n", "shop")
    assert f"the pod template of {kind.lower()} shop/web" in done.stdout, done.stderr
    assert IMAGE in done.stdout
    owner = "owner"
    if between:
        owner = "between"
        references = [{"uid": "owner"}]
        metadata: Json = {"name": "web-x", "namespace": "shop", "uid": owner, "ownerReferences": references}
        api.add({"apiVersion": "v1", "kind": between, "metadata": metadata, "spec": {}})
    api.add(failing_pod(owner))
    done = explain(word, "-n", "shop")
    assert "pod shop/web-1 on node node1, container app: registry.example/team/app:v2\n" in done.stdout
    assert f"pod 'web-1' of {kind.lower()} 'web' waits for its image" in done.stdout


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (
            "secrets",
            "pull secret 'regcred', which the pod lists, was not given: no permission to get secrets in shop: ",
        ),
        ("serviceaccounts", "no permission to get serviceaccounts in shop: "),
        ("events", "no permission to list events in shop: "),
    ],
)
def test_a_refusal_names_what_is_missing_and_the_rest_goes_on(
    api: KubernetesApi, explain: Explain, lacking: str, said: str
) -> None:
    """Verb, resource and namespace, and the server's own words."""
    api.users[TOKEN].permitted.clear()
    api.permit(TOKEN, "get list", EVERYTHING.replace(lacking, ""), "shop")
    api.add(pod(imagePullSecrets=[{"name": "regcred"}]), pull_secret())
    done = explain("pod/web", "-n", "shop")
    assert done.returncode == (6 if lacking == "secrets" else 0), done.stdout
    assert said in done.stdout
    assert 'is forbidden: User "bob" cannot ' in done.stdout
    assert "nothing that is configured" not in done.stdout
    assert "kubectl create secret" not in done.stdout


def test_a_secret_that_may_not_be_read_can_be_given(
    api: KubernetesApi, explain: Explain, tmp_path: Path
) -> None:
    """The option that is named tells."""
    api.users[TOKEN].permitted.clear()
    api.permit(TOKEN, "get list", "pods events serviceaccounts", "shop")
    api.add(pod(imagePullSecrets=[{"name": "regcred"}]))
    path = tmp_path / "secret.json"
    path.write_text(json.dumps(pull_secret()))
    done = explain("pod/web", "-n", "shop", "--secret", str(path))
    assert done.returncode == 0, done.stdout


def test_a_target_that_cannot_be_read_is_an_error(api: KubernetesApi, explain: Explain) -> None:
    """Not found is told from not permitted, and the other meaning of the word is named."""
    done = explain("pod/nosuch", "-n", "shop")
    assert done.returncode == 3
    assert done.stderr == (
        "keyferry: there is no pod 'nosuch' in namespace 'shop'; for the image of that name, write "
        "docker.io/pod/nosuch\n"
    )
    api.add(pod(namespace="other"))
    done = explain("pod/web", "-n", "other")
    assert done.returncode == 5
    assert "no permission to get pods in other: " in done.stderr


def test_events_about_pulls_are_shown_newest_last(api: KubernetesApi, explain: Explain) -> None:
    """The kubelet's own words on one line each, masked, and without those about other things.

    An event of the newer API has a series and an eventTime.
    """
    api.add(pod())
    uid = api.objects["", "pods", "shop", "web"]["metadata"]["uid"]  # type: ignore[index] # a map
    newer = {"eventTime": "2026-11-16T10:00:00Z", "lastTimestamp": None}
    series = {"count": 5, "lastObservedTime": "2026-11-16T10:01:30Z"}
    events: list[tuple[str, str, Json]] = [
        ("Pulling", f'Pulling image "{IMAGE}"', {**newer, "series": series}),
        (
            "BackOff",
            f'Back-off pulling image "{IMAGE}"',
            {"lastTimestamp": "2026-11-16T10:02:00Z", "count": 3},
        ),
        ("Failed", "Error:\nErrImagePull, password=kf-marked", {"lastTimestamp": "2026-11-16T10:01:00Z"}),
        ("Scheduled", "Successfully assigned", {"lastTimestamp": "2026-11-16T09:00:00Z"}),
    ]
    for reason, message, times in events:
        involved = {"kind": "Pod", "name": "web", "namespace": "shop", "uid": uid}
        metadata: Json = {"name": f"web.{reason.lower()}", "namespace": "shop"}
        event: Json = {"involvedObject": involved, "reason": reason, "message": message, "type": "Normal"}
        api.add({"kind": "Event", "metadata": metadata, **event, **times})
    done = explain("pod/web", "-n", "shop", "-o", "wide")
    happened = done.stdout.partition("\nWHAT HAPPENED\n")[2].partition("\n\n")[0]
    assert happened.splitlines() == [
        "  2026-11-16T10:01:00Z Normal Failed: Error: ErrImagePull, password=********",
        f'  2026-11-16T10:01:30Z Normal Pulling (5 times): Pulling image "{IMAGE}"',
        f'  2026-11-16T10:02:00Z Normal BackOff (3 times): Back-off pulling image "{IMAGE}"',
    ]


def test_a_token_is_requested_bound_to_the_pod(api: KubernetesApi, explain: Explain, node: Node) -> None:
    """Without it the answer is unknown and both options are named; with it the plugin gets a kubelet's token."""
    auth = '{"registry.example": {"username": "federated", "password": "p"}}'
    node.add("federate", [HOST], auth, extra=TOKEN_ATTRIBUTES)
    api.add(pod())
    words = ["pod/web", "-n", "shop", *node.options()]
    done = explain(*words)
    assert done.returncode == 6, done.stdout
    assert "a token of the service account 'shop/default' was not given" in done.stdout
    assert "add --request-token, or --service-account-token FILE" in done.stdout
    assert not (node.bin_dir / "federate.runs").exists()
    api.node_audiences = {"registry.test"}
    done = explain(*words, "--request-token")
    assert done.returncode == 6, done.stdout
    assert "no permission to create serviceaccounts/token in shop: " in done.stdout
    assert "\n→ add --service-account-token FILE\n" in done.stdout
    assert "--request-token" not in done.stdout
    next_step = f"keyferry plugin try {IMAGE} --service-account shop/default {' '.join(node.options())}\n"
    assert next_step in done.stdout
    api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
    done = explain(*words, "--request-token", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert users(documents(done)[0]) == ["federated"]
    (token,) = api.issued
    assert json.loads(node.request("federate"))["serviceAccountToken"] == token
    assert token not in done.stdout + done.stderr
    sent = json.loads(
        next(seen.body for seen in api.seen if seen.path.endswith("/token") and seen.status == 201)
    )
    uid = api.objects["", "pods", "shop", "web"]["metadata"]["uid"]  # type: ignore[index] # a map
    assert sent["spec"] == {
        "audiences": ["registry.test"],
        "expirationSeconds": None,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid},
    }


@pytest.fixture
def federated(api: KubernetesApi, node: Node, no_login: list[str]) -> list[str]:
    """The words for a pod on node1, whose provider takes tokens."""
    auth = '{"registry.example": {"username": "federated", "password": "p"}}'
    node.add("federate", [HOST], auth, extra=TOKEN_ATTRIBUTES)
    api.add(pod())
    api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
    return ["pod/web", "-n", "shop", *node.options(), *no_login, "--request-token"]


def test_a_node_that_may_not_request_the_audience_gets_no_token(
    api: KubernetesApi, explain: Explain, node: Node, federated: list[str]
) -> None:
    """This user gets one, which says nothing about the kubelet: the provider fails, and nothing is requested."""
    api.node_audiences = {"another.test"}
    done = explain(*federated, "-o", "json")
    assert done.returncode == 1, done.stdout
    (document,) = documents(done)
    refused = "no credential is found: node 'node1' may not request tokens for audience 'registry.test'"
    assert (document["verdict"]["case"], document["verdict"]["text"]) == ("no-credential", refused)
    assert users(document) == []
    assert not api.issued
    assert not (node.bin_dir / "federate.runs").exists()
    (review,) = api.reviewed
    assert (review["user"], review["groups"]) == (
        "system:node:node1",
        ["system:nodes", "system:authenticated"],
    )
    api.node_audiences.add("registry.test")
    assert users(documents(explain(*federated, "-o", "json"))[0]) == ["federated"]


def test_what_a_node_may_request_is_unknown_if_the_review_is_forbidden(
    explain: Explain, node: Node, federated: list[str]
) -> None:
    done = explain(*federated, "-o", "json")
    assert done.returncode == 6, done.stdout
    (missing,) = documents(done)[0]["missing"]
    assert missing["input"] == "service-account-token"
    text = "whether node 'node1' may request tokens for audience 'registry.test' is unknown: no permission to"
    assert f"{text} create subjectaccessreviews" in missing["text"]
    assert not (node.bin_dir / "federate.runs").exists()


def test_a_volume_of_the_pod_permits_its_audience(
    api: KubernetesApi, explain: Explain, federated: list[str]
) -> None:
    """Whatever RBAC says; another audience of a volume does not."""
    token = {"serviceAccountToken": {"audience": "registry.test", "path": "t"}}
    volumes: list[Json] = [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}, token]}}]
    api.add(pod(volumes=volumes))
    assert users(documents(explain(*federated, "-o", "json"))[0]) == ["federated"]
    token["serviceAccountToken"]["audience"] = "another.test"
    api.node_audiences = set()
    assert explain(*federated).returncode == 1


def test_an_older_server_restricts_no_audience(
    api: KubernetesApi, explain: Explain, federated: list[str]
) -> None:
    api.minor = "32"
    assert users(documents(explain(*federated, "-o", "json"))[0]) == ["federated"]


def test_without_running_a_config_that_stops_the_kubelet_is_explained(
    api: KubernetesApi, explain: Explain, node: Node, no_login: list[str]
) -> None:
    """Under a banner; the plugins' answers are unknown."""
    node.add("own", [HOST])
    (node.bin_dir / "own").unlink()
    api.add(pod())
    words = ["pod/web", "-n", "shop", *node.options()]
    assert explain(*words, *no_login).returncode == 4
    done = explain(*words, "--no-run")
    assert done.returncode == 6, done.stderr
    banner = done.stdout.partition("\n\n")[0].splitlines()
    assert len(banner) == 2
    assert banner[0] == "a kubelet does not start with this config, and pulls nothing"
    assert banner[1].endswith("own is missing")
    assert "cannot tell whether the kubelet has a credential: the plugin 'own' was not run\n" in done.stdout
    assert "leave out --no-run\n" in done.stdout
    # The node's config alone tells which providers match.
    done = explain("pod/web", "-n", "shop", "--config", str(node.config), "-o", "json")
    assert done.returncode == 6, done.stderr
    (document,) = documents(done)
    assert inputs(document) == ["plugin", "docker-config"]


def test_files_with_any_workload_are_explained(tmp_path: Path, explain: Explain) -> None:
    """Several documents and Lists, from a file or from standard input; -n is for objects without a namespace."""
    path = tmp_path / "all.json"
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [deployment("StatefulSet"), pull_secret(), account()],
    }
    path.write_text(json.dumps(listed) + "\n---\n" + json.dumps(deployment("CronJob")))
    done = explain("-f", str(path))
    assert "the pod template of statefulset shop/web on no node" in done.stdout
    assert "the pod template of cronjob shop/web on no node" in done.stdout
    assert (
        "secret 'regcred' is given, but the pod does not list it: the kubelet does not read it" in done.stdout
    )
    assert done.returncode == 6
    assert explain("pod/web", "-f", str(path)).returncode == 2


def test_records_and_mirrors_of_this_machine_are_not_the_nodes(
    api: KubernetesApi, explain: Explain, tmp_path: Path
) -> None:
    """Neither this machine's certs.d nor its kubelet's root counts, unless an option gives them or --here is given."""
    registry = "127.0.0.1:1"
    hosts = tmp_path / "root" / "etc" / "containerd" / "certs.d" / registry
    hosts.mkdir(parents=True)
    (hosts / "hosts.toml").write_text('[host."https://mirror.example"]\n')
    api.add(pod(images=(f"{registry}/x:1",)))
    words = ["pod/web", "-n", "shop", "--check-registry", "--policy", "AlwaysVerify", "-o", "json"]
    env = {"KEYFERRY_HOST_ROOT": str(tmp_path / "root")}
    done = explain(*words, **env)
    (document,) = documents(done)
    assert document["registry"]["mirrors"] is None
    assert "access" not in document
    assert "the records of the node are given with --root, those of this machine with --here" in done.stderr
    given = explain(*words, "--hosts-dir", str(hosts.parent), **env)
    assert "mirror.example" in given.stdout
    here = [word for word in words if word not in ("--policy", "AlwaysVerify")]
    assert "mirror.example" in explain(*here, "--here", **env).stdout
