"""What is not known of a pod is never a "no", and nothing of another pod or machine answers for it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.bobs_cluster import BobsCluster
from support.commands import Node, run_in_process
from support.kube import TOKEN
from support.kubelets import Processes
from support.kubernetes_api import Json, KubernetesApi, account, pod, pull_secret
from support.records import open_quickly

HOST = "registry.example"
IMAGE = "registry.example/team/app:v1"


@pytest.fixture
def node(node: Node) -> Node:
    """A node whose provider is for another host."""
    return node.add("other", ["else.example"])


@pytest.fixture
def api(bob: BobsCluster, monkeypatch: pytest.MonkeyPatch) -> KubernetesApi:
    """A server whose kubeconfig is in the environment; bob may read deployments, pods and secrets, no accounts."""
    bob.api.users[TOKEN].permitted.clear()
    bob.api.permit(TOKEN, "get list", "pods secrets events deployments replicasets", "shop")
    monkeypatch.setenv("KUBECONFIG", str(bob.kube.path))
    monkeypatch.setenv("KUBERC", "")
    return bob.api


def write(path: Path, *documents: object) -> str:
    """Write objects into one file."""
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


def deployment(**spec: object) -> Json:
    """Return a deployment of the image; its pods are of account builder."""
    template = {
        "spec": {"serviceAccountName": "builder", "containers": [{"name": "app", "image": IMAGE}], **spec}
    }
    metadata: Json = {"name": "web", "namespace": "shop", "uid": "owner"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"template": template},
    }


def explanations(text: str) -> list[dict[str, Any]]:
    """Return the explanation of each image of each pod."""
    return [each["explanation"] for pod in json.loads(text)["pods"] for each in pod["images"]]


def test_an_account_that_may_not_be_read_is_not_an_account_without_secrets(
    api: KubernetesApi, node: Node, no_login: list[str]
) -> None:
    """The pods of the template get its pull secrets, whatever they are."""
    api.add(deployment())
    words = ["explain", "deploy/web", "-n", "shop", *node.options(), *no_login]
    done = run_in_process(*words)
    assert done.returncode == 6, done.stdout
    unknown = "the pull secrets of service account 'shop/builder' are not known: no permission to get serviceaccounts"
    assert f"cannot tell whether the kubelet has a credential: {unknown}" in done.stdout
    assert "use a context whose user may get serviceaccounts there" in done.stdout
    assert "-f FILE" not in done.stdout
    unknown_list = "pull secrets: not known; the pod lists none, and its service account may"
    assert unknown_list in run_in_process(*words, "-o", "wide").stdout
    # A pod that was created has its final list.
    api.add(pod(serviceAccountName="builder"))
    words[1] = "pod/web"
    assert run_in_process(*words).returncode == 1


def test_an_account_may_have_its_deprecated_name(node: Node, tmp_path: Path, no_login: list[str]) -> None:
    """A pod without one is of the account default."""
    options = [*node.options(), *no_login]
    for named, name in (({"serviceAccount": "old"}, "old"), ({}, "default")):
        made = deployment()
        made["spec"] = {"template": {"spec": {"containers": [{"name": "app", "image": IMAGE}], **named}}}
        done = run_in_process("explain", "-f", write(tmp_path / "1.json", made), *options)
        assert f"the pull secrets of service account 'shop/{name}' are not known" in done.stdout


@pytest.mark.parametrize("command", ["explain", "get"])
def test_a_manifest_without_its_account_cannot_tell(
    command: str, node: Node, tmp_path: Path, no_login: list[str]
) -> None:
    """With the account it can; so it can if the manifest lists its own secrets."""
    sure = [*node.options(), *no_login]
    done = run_in_process(command, IMAGE, "-f", write(tmp_path / "1.json", deployment()), *sure)
    assert done.returncode == 6, done.stdout
    said = done.stdout + done.stderr
    assert "the pull secrets of service account 'shop/builder' are not known" in said
    assert "add -f FILE with the ServiceAccount after the Pod" in said
    file = write(tmp_path / "2.json", deployment(), account("builder"))
    assert run_in_process(command, IMAGE, "-f", file, *sure).returncode == 1
    listing = deployment(imagePullSecrets=[{"name": "regcred"}])
    file = write(tmp_path / "3.json", listing, pull_secret(host="else.example"))
    assert run_in_process(command, IMAGE, "-f", file, *sure).returncode == 1


def test_the_nodes_own_docker_config_is_read_on_the_node(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kubelet searches for it; not on another node."""
    root = tmp_path / "root"
    root.mkdir()
    auth = base64.b64encode(b"of-the-node:p").decode()
    (root / "config.json").write_text(json.dumps({"auths": {HOST: {"auth": auth}}}))
    monkeypatch.setenv("KEYFERRY_PROC", str(processes))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    created = pod()
    created["metadata"] = {"name": "web", "namespace": "shop", "uid": "u"}
    words = ["explain", "-f", write(tmp_path / "pod.json", created)]
    with processes.kubelet(f"--root-dir={root}", "--hostname-override=node1"):
        done = run_in_process(*words)
        assert done.returncode == 0, done.stdout
        first = f"✓ a credential is found: user 'of-the-node' of node docker config {root}/config.json\n"
        assert done.stdout.startswith(first)
        searched = f"node docker config: {root}/config.json (searched for as the kubelet does)"
        assert searched in run_in_process(*words, "-o", "wide").stdout
    with processes.kubelet(f"--root-dir={root}", "--hostname-override=node2"):
        assert run_in_process(*words).returncode == 6
        here = run_in_process(*words, "--here")
        assert here.returncode == 0, here.stdout


def test_the_docker_config_of_another_node_is_not_absent(
    node: Node, tmp_path: Path, no_login: list[str]
) -> None:
    """Its provider config is given, and says nothing about it; an image alone is about the files that are given."""
    created = pod()
    created["metadata"] = {"name": "web", "namespace": "shop", "uid": "u"}
    words = ["explain", "-f", write(tmp_path / "pod.json", created), *node.options()]
    done = run_in_process(*words)
    assert done.returncode == 6, done.stdout
    assert "the node's docker config was not given: the pod is on node 'node1'" in done.stdout
    assert "add --docker-config FILE" in done.stdout
    assert run_in_process(*words, *no_login).returncode == 1


def test_a_pod_on_no_node_may_land_elsewhere(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the files of this node are an example."""
    monkeypatch.setenv("KEYFERRY_PROC", str(processes))
    file = write(tmp_path / "web.json", deployment(), account("builder"))
    note = "the pod is on no node yet: this machine's files are used, and the pod may run on another node"
    with processes.kubelet(f"--root-dir={tmp_path}", "--hostname-override=node1"):
        assert note in run_in_process("explain", "-f", file).stdout
        assert note not in run_in_process("explain", "-f", file, "--here").stdout


def test_an_image_is_explained_for_the_pods_that_use_it(node: Node, tmp_path: Path) -> None:
    """Not for the first pod of the file, whatever it runs."""
    secrets = [{"name": "regcred"}]
    one = pod("one", images=("busybox",))
    two = pod("two", imagePullSecrets=secrets)
    items = [one, two, pull_secret()]
    file = write(tmp_path / "list.json", {"apiVersion": "v1", "kind": "List", "items": items})
    for command in ("explain", "get"):
        assert run_in_process(command, IMAGE, "-f", file, *node.options()).returncode == 0
        done = run_in_process(command, "other.example/x", "-f", file, *node.options())
        assert done.returncode == 3
        found = "no pod uses 'other.example/x': found pod shop/one, pod shop/two"
        assert f"{file}: {found}" in done.stderr
    three = pod("three", images=("busybox", IMAGE), imagePullSecrets=secrets)
    file = write(tmp_path / "more.json", *items, three)
    done = run_in_process("explain", IMAGE, "-f", file, *node.options(), "-o", "json")
    assert done.returncode == 0, done.stderr
    explained = [
        (each["pod"], [image["image"] for image in each["images"]])
        for each in json.loads(done.stdout)["pods"]
    ]
    assert explained == [("two", [IMAGE]), ("three", [IMAGE])]
    done = run_in_process("get", IMAGE, "-f", file, *node.options())
    assert done.returncode == 3
    assert "pod shop/two, pod shop/three use this image; expected one of them" in done.stderr


@pytest.mark.parametrize("command", ["explain", "get"])
def test_the_namespace_is_that_of_objects_without_one(command: str, node: Node, tmp_path: Path) -> None:
    """Also beside an image, and for every command with files."""
    bare = pod(imagePullSecrets=[{"name": "regcred"}])
    bare["metadata"] = {"name": "web", "uid": "u"}
    file = write(tmp_path / "pod.json", bare)
    secret = write(tmp_path / "secret.json", pull_secret(namespace="shop"))
    words = [command, IMAGE, "-f", file, "--secret", secret, *node.options()]
    assert run_in_process(*words, "-n", "shop").returncode == 0
    done = run_in_process(*words)
    assert done.returncode == 6
    assert "its namespace is 'shop' and the pod's is 'default'" in done.stdout + done.stderr


def test_a_malformed_secret_is_a_sure_no_for_every_image(node: Node, tmp_path: Path) -> None:
    """With its verdict, cause and cure in every format; no plugin is asked."""
    node.add("own", [HOST], '{"registry.example": {"username": "u", "password": "p"}}')
    content = base64.b64encode(b'{"auths": {"registry.example": {"auth": "s3cret!"}}}').decode()
    broken = pull_secret("broken", data={".dockerconfigjson": content})
    made = pod(images=(IMAGE, "registry.example/b"), imagePullSecrets=[{"name": "broken"}])
    words = ["explain", "-f", write(tmp_path / "pod.json", made, broken), *node.options()]
    done = run_in_process(*words, "-o", "json")
    assert done.returncode == 1, done.stderr
    documents = explanations(done.stdout)
    assert [each["verdict"]["outcome"] for each in documents] == ["no", "no"]
    assert [each["decision"]["outcome"] for each in documents] == ["failed", "failed"]
    for each in documents:
        assert "pull secret shop/broken, key '.dockerconfigjson': " in each["cause"]
        assert "the kubelet then fails the whole lookup" in each["cause"]
        (line,) = each["cure"][0]["lines"]
        new_file, saved, written = line.split(" && ")
        assert new_file == "saved=$(mktemp broken-saved.XXXXXX)"
        assert saved == 'kubectl get secret broken -n shop -o yaml > "$saved"'
        assert written.startswith("kubectl patch secret broken -n shop -p ")
        assert '"$(kubectl create secret docker-registry broken -n shop ' in written
    one = run_in_process("explain", IMAGE, *words[1:])
    assert one.returncode == 1
    assert one.stdout.startswith(f"✗ {documents[0]['cause']}\n")
    assert "pulls anonymously" not in one.stdout
    assert not (node.bin_dir / "own.runs").exists()
    assert "s3cret" not in done.stdout + one.stdout


def test_an_image_that_is_never_pulled_must_be_on_the_node(node: Node, tmp_path: Path) -> None:
    """Credentials do not matter; the runtime and the records of the node do."""
    containers = [
        {"name": "app", "image": IMAGE, "imagePullPolicy": "Never"},
        {"name": "side", "image": IMAGE, "imagePullPolicy": "Always"},
    ]
    made = pod(containers=containers, imagePullSecrets=[{"name": "regcred"}])
    words = ["explain", "-f", write(tmp_path / "pod.json", made, pull_secret()), *node.options()]
    done = run_in_process(*words, "-o", "json")
    assert done.returncode == 6
    (found,) = json.loads(done.stdout)["pods"]
    verdicts = {image["containers"][0]["name"]: image["explanation"]["verdict"] for image in found["images"]}
    assert verdicts["side"]["outcome"] == "yes"
    assert verdicts["app"] == {
        "about": "use",
        "outcome": "unknown",
        "case": "unknown",
        "text": "cannot tell whether the image is on the node: the pod forbids to pull it (imagePullPolicy: Never)",
    }
    text = run_in_process(*words).stdout
    assert text.startswith(
        "? cannot tell whether the image is on the node: the pod forbids to pull it (imagePullPolicy: Never)\n"
        f"  pod shop/web on node node1, container app: {IMAGE}\n"
    )
    root = tmp_path / "records"
    open_quickly(root)
    given = ["--root", str(root), "--policy", "NeverVerify", "--image-id", "sha256:1"]
    done = run_in_process(*words, *given)
    assert done.returncode == 0, done.stdout
    use = "✓ the image is on the node and this pod may use it; nothing is pulled\n"
    assert f"{use}  pod shop/web on node node1, container app: {IMAGE}\n" in done.stdout
    done = run_in_process(*words, *given[:2], "--policy", "AlwaysVerify", *given[4:])
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith(
        "✗ the image is on the node, and policy AlwaysVerify does not let this pod use it without a pull, which the "
        "pod forbids (imagePullPolicy: Never): "
    )


def test_image_volumes_are_explained(tmp_path: Path) -> None:
    """They are pulled as the images of containers are."""
    volumes = [
        {"name": "data", "image": {"reference": "registry.example/data:v1"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    file = write(tmp_path / "pod.json", pod(volumes=volumes))
    assert "image volume data: registry.example/data:v1" in run_in_process("explain", "-f", file).stdout


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"containers": "no"}, "spec.containers: expected a list, found str"),
        ({"containers": ["no"]}, "spec.containers[0]: expected a map, found str"),
        (
            {"containers": [{"name": "app", "image": 5}]},
            "spec.containers[0].image: expected a string, found int",
        ),
        (
            {"containers": [{"name": "app", "image": "a"}, {"name": False, "image": "nginx"}]},
            "spec.containers[1].name: expected a string, found bool",
        ),
        (
            {"containers": [{"name": "app", "image": "a", "imagePullPolicy": 1}]},
            "spec.containers[0].imagePullPolicy: expected a string, found int",
        ),
        (
            {"containers": [], "volumes": [{"name": "data", "image": "a"}]},
            "spec.volumes[0].image: expected a map, found str",
        ),
        (
            {"containers": [], "imagePullSecrets": [{"name": False}]},
            "spec.imagePullSecrets[0].name: expected a string, found bool",
        ),
        ({"containers": [], "nodeName": 5}, "spec.nodeName: expected a string, found int"),
        ({"containers": []}, "it has no container with an image, so there is nothing to explain"),
    ],
)
def test_a_malformed_pod_is_an_error(spec: Json, said: str, tmp_path: Path) -> None:
    """With the file, the field, what was found and what is expected."""
    file = write(tmp_path / "pod.json", {**pod(), "spec": spec})
    done = run_in_process("explain", "-f", file)
    assert done.returncode == 3
    assert said in done.stdout + done.stderr
    assert file in done.stderr or spec == {"containers": []}


def test_a_container_without_an_image_is_noted(tmp_path: Path) -> None:
    """It is not left out in silence; who asks about an image did not ask about it."""
    containers = [{"name": "app", "image": IMAGE}, {"name": "sidecar"}]
    file = write(tmp_path / "pod.json", pod(containers=containers))
    note = "container sidecar has no image, so it is not explained"
    assert note in run_in_process("explain", "-f", file).stdout
    document = json.loads(run_in_process("explain", "-f", file, "-o", "json").stdout)
    assert document["notes"] == [f"pod shop/web: {note}"]
    assert note not in run_in_process("explain", IMAGE, "-f", file).stdout


@pytest.mark.parametrize(
    ("objects", "found"),
    [((pod(),), "a Pod"), ((account(), pod(), pod()), "a ServiceAccount and a Pod")],
)
def test_a_file_for_a_secret_has_one(objects: tuple[Json, ...], found: str, tmp_path: Path) -> None:
    """The file of the pod, given again by mistake, is not a second pod."""
    file = write(tmp_path / "pod.json", pod())
    wrong = write(tmp_path / "wrong.json", *objects)
    for words in (["explain"], ["explain", IMAGE], ["get", IMAGE]):
        done = run_in_process(*words, "-f", file, "--secret", wrong)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"{wrong}: found {found}, expected a Secret (--secret)" in done.stderr


def test_pods_beside_a_secret_are_not_explained(tmp_path: Path) -> None:
    file = write(tmp_path / "all.json", pod(imagePullSecrets=[{"name": "regcred"}]), pull_secret())
    done = run_in_process("explain", "-f", file, "--secret", file, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["pods"]) == 1


def test_a_secret_that_does_not_exist_is_listed_all_the_same(
    api: KubernetesApi, node: Node, no_login: list[str]
) -> None:
    """Its name is among the pod's, and it is the cause."""
    api.add(pod(imagePullSecrets=[{"name": "nosuch"}]))
    words = ["explain", "pod/web", "-n", "shop", *node.options(), *no_login]
    done = run_in_process(*words)
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith(
        "✗ no credential is found: secret 'nosuch', which the pod lists, does not exist in 'shop'"
    )
    wide = run_in_process(*words, "-o", "wide").stdout
    assert "pull secrets: shop/nosuch (does not exist)" in wide
    assert "the pod lists none" not in wide
    assert "kubectl create secret docker-registry nosuch -n shop " in done.stdout


def cause(done_text: str) -> dict[str, Any]:
    """Return the explanation of the only image."""
    (found,) = explanations(done_text)
    return found


@pytest.mark.parametrize(
    ("secret", "code", "said", "line"),
    [
        pytest.param(
            pull_secret(namespace="build"),
            6,
            "its namespace is 'build' and the pod's is 'shop'",
            "kubectl create secret docker-registry regcred -n shop ",
            id="other-namespace",
        ),
        pytest.param(
            pull_secret(type="Opaque"),
            1,
            "its type is 'Opaque'",
            "| kubectl replace --force -f -",
            id="opaque",
        ),
        pytest.param(
            pull_secret(data={".dockerconfigjson": base64.b64encode(b"{}").decode()}),
            1,
            "its '.dockerconfigjson' has no entry under 'auths'",
            "kubectl create secret docker-registry regcred -n shop ",
            id="no-auths",
        ),
        pytest.param(
            pull_secret(data={"x": "e30="}),
            1,
            "it has no data under '.dockerconfigjson'",
            "kubectl create secret docker-registry regcred -n shop ",
            id="no-data",
        ),
    ],
)
def test_a_secret_of_no_use_is_the_cause_with_its_cure(
    node: Node, tmp_path: Path, no_login: list[str], secret: Json, code: int, said: str, line: str
) -> None:
    """First, and not as a note after everything else; also if it cannot be told what the right one has."""
    made = pod(imagePullSecrets=[{"name": "regcred"}])
    file = write(tmp_path / "pod.json", made, account(), secret)
    words = ["explain", "-f", file, *node.options(), *no_login]
    done = run_in_process(*words, "-o", "json")
    assert done.returncode == code, done.stdout
    found = cause(done.stdout)
    assert said in found["cause"]
    assert line in found["cure"][0]["lines"][0]
    assert run_in_process(*words).stdout.count(said) == 1


def test_an_empty_login_is_told_with_its_cause_and_cure(
    node: Node, tmp_path: Path, no_login: list[str]
) -> None:
    """It is no credential, although the kubelet tries it; nothing is masked where there is nothing."""
    content = base64.b64encode(json.dumps({"auths": {HOST: {}}, "credsStore": "desktop"}).encode())
    secret = pull_secret(data={".dockerconfigjson": content.decode()})
    file = write(tmp_path / "pod.json", pod(imagePullSecrets=[{"name": "regcred"}]), secret)
    options = ["-f", file, *node.options(), *no_login]
    done = run_in_process("explain", *options)
    assert done.returncode == 1, done.stdout
    assert "✓" not in done.stdout
    told = f"key '{HOST}' of pull secret shop/regcred has no user name and no password"
    assert done.stdout.startswith(f"✗ a login is found, but it is empty: {told}")
    assert done.stdout.count(told) == 1
    assert "kubectl create secret docker-registry regcred -n shop " in done.stdout
    for words in (["get", IMAGE], ["get", IMAGE, "-o", "wide"], ["explain", "-o", "wide"]):
        shown = run_in_process(*words, *options).stdout
        assert "(empty)" in shown
        assert "***" not in shown
    shown = run_in_process("get", IMAGE, "-o", "json", *options).stdout
    assert [each["password"] for each in json.loads(shown)["credentials"]] == [""]
    assert "REGISTRY_PASSWORD=''\n" in run_in_process("get", IMAGE, "-o", "env", *options).stdout


def test_a_secret_that_the_pod_does_not_list_is_a_cause_if_it_is_for_the_image(
    node: Node, tmp_path: Path, no_login: list[str]
) -> None:
    """Another one is only a note."""
    created = pod()
    created["metadata"] = {"name": "web", "namespace": "shop", "uid": "u"}
    for host, is_cause in ((HOST, True), ("else.example", False)):
        file = write(tmp_path / "pod.json", created, account(), pull_secret(host=host))
        done = run_in_process("explain", "-f", file, *node.options(), *no_login, "-o", "json")
        found = cause(done.stdout)
        assert ("the pod does not list it" in found["cause"]) is is_cause
        assert ("kubectl patch serviceaccount" in found["cure"][0]["lines"][0]) is is_cause


def test_images_of_which_the_same_is_told_are_one_block(
    node: Node, tmp_path: Path, no_login: list[str]
) -> None:
    """All of their containers are named in it; what they have in common is said once."""
    made = pod(
        images=("registry.example/a", "registry.example/b", "busybox"), imagePullSecrets=[{"name": "x"}]
    )
    file = write(tmp_path / "pod.json", made, pull_secret("x", host="else.example"), pull_secret("unlisted"))
    done = run_in_process("explain", "-f", file, *node.options(), *no_login)
    heads = [block.splitlines() for block in done.stdout.split("\n\n") if block.startswith("✗")]
    assert heads == [
        [
            "✗ no credential is found: secret 'unlisted' is given, but the pod does not list it: the kubelet does not "
            "read it",
            "  pod shop/web on node node1, container app: registry.example/a; container c1: registry.example/b",
        ],
        [
            "✗ no credential is found: nothing that is configured is for docker.io",
            "  pod shop/web on node node1, container c2: busybox",
        ],
    ]


def test_a_hint_does_not_wait_for_input_that_is_gone(node: Node) -> None:
    """The pod came from standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", "explain", "-f", "-", *node.options()],
        input=json.dumps(pod(imagePullSecrets=[{"name": "x"}])),
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "10000"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert " -f FILE" in done.stdout
    assert "-f - " not in done.stdout


def test_two_words_are_one_object() -> None:
    """As kubectl takes them; this command takes them with a slash."""
    done = run_in_process("explain", "pod", "web")
    assert done.returncode == 2
    assert "unrecognized arguments: web; did you mean 'pod/web'?" in done.stderr
    assert "did you mean" not in run_in_process("explain", "busybox", "web").stderr


@pytest.mark.parametrize("command", ["get", "pull"])
def test_objects_of_a_cluster_are_for_explain_and_can_pull(command: str, node: Node, tmp_path: Path) -> None:
    """For other commands the word is an image, which a note says."""
    to = ["--to", str(tmp_path / "to")] if command == "pull" else []
    done = run_in_process(command, "pod/web", *node.options(), *to, HTTPS_PROXY="http://127.0.0.1:1")
    assert (
        "pod/web is read as the image docker.io/pod/web; for the pod of a cluster, use keyferry explain pod/web"
        in done.stderr
    )


def test_the_plan_takes_pods_as_other_commands_do(tmp_path: Path) -> None:
    open_quickly(tmp_path / "records")
    file = write(tmp_path / "pod.json", pod(imagePullSecrets=[{"name": "regcred"}]), account())
    words = ["records", "plan", "--policy", "AlwaysVerify", "--root", str(tmp_path / "records")]
    assert "shop/web" in run_in_process(*words, "-f", file).stdout
