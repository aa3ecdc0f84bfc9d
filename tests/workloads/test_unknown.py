"""Whatever is not known is "cannot tell", with exit code 6 and the option that would tell; junk has a clear message."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.bobs_cluster import BobsCluster
from support.commands import Node, plain_pod, run_in_process
from support.kube import TOKEN
from support.kubelets import Processes
from support.kubernetes_api import account, pod, pull_secret

HOST = "registry.example"
IMAGE = "registry.example/team/app:v1"
AUTH = '{"registry.example": {"username": "provided", "password": "p"}}'
TAKES_TOKENS = """\
  tokenAttributes:
    serviceAccountTokenAudience: registry.test
    cacheType: Token
    requireServiceAccount: true
"""


def write(path: Path, *documents: object) -> str:
    """Write objects into one file."""
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


@pytest.mark.parametrize("command", ["get", "explain", "can-pull"])
def test_without_a_provider_config_the_other_sources_are_used(command: str, tmp_path: Path) -> None:
    """A secret or a docker config decides; a note says that no plugin is asked."""
    unreachable = "127.0.0.1:1/team/app:v1"
    secret = write(tmp_path / "secret.json", pull_secret(host="127.0.0.1:1", login="from-secret:p"))
    done = run_in_process(command, unreachable, "--secret", secret, "-o", "json")
    said = done.stdout + done.stderr
    assert "found no provider config, so no plugin is asked; give one with --config" in said
    assert "from-secret" in done.stdout
    assert done.returncode == (6 if command == "can-pull" else 0)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {"127.0.0.1:1": {"username": "from-file", "password": "p"}}}))
    done = run_in_process(command, unreachable, "--docker-config", str(config), "-o", "json")
    assert "from-file" in done.stdout


@pytest.mark.parametrize("command", ["get", "explain"])
def test_without_a_kubelet_the_nodes_config_is_not_known(command: str, tmp_path: Path) -> None:
    """With every secret given there may still be a provider on the node."""
    secret = write(tmp_path / "secret.json", pull_secret(host="other.example"))
    done = run_in_process(command, IMAGE, "--secret", secret)
    assert done.returncode == 6
    said = done.stdout + done.stderr
    assert "docker config of the pod's node are not known: no kubelet runs on this machine" in said
    assert "add --config FILE and --bin-dir DIR of the node, or --here if this machine is the node" in said
    here = run_in_process(command, IMAGE, "--secret", secret, "--here")
    assert here.returncode == 1


def test_with_a_kubelet_without_providers_there_are_none(tmp_path: Path, processes: Processes) -> None:
    """This machine is a node, and its kubelet has no config: that is known."""
    with processes.kubelet():
        done = run_in_process("explain", IMAGE, *plain_pod(tmp_path), "-o", "wide")
    assert done.returncode == 1, done.stdout
    first = "✗ no credential is found: there is no provider, no pull secret and no docker config\n"
    assert done.stdout.startswith(first)
    assert "the kubelet has no provider config, so it asks no plugin\n" in done.stdout


def test_which_machines_files_are_used_is_said(node: Node) -> None:
    """Without a kubelet, a config that was found is this machine's."""
    node.add("own", [HOST], AUTH)
    env = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    done = run_in_process("explain", IMAGE, cwd=None, **env)
    said = f"no kubelet runs on this machine: {node.config} is this machine's, and a node may have another config"
    assert said in done.stdout
    assert said not in run_in_process("explain", IMAGE, *node.options()).stdout


def test_a_docker_config_of_this_user_is_not_the_kubelets(
    tmp_path: Path, processes: Processes, node: Node
) -> None:
    """'auto' looks in the kubelet's own home, not in that of whoever asks."""
    node.add("other", ["else.example"])
    login = json.dumps({"auths": {HOST: {"auth": base64.b64encode(b"mine:p").decode()}}})
    (tmp_path / "home" / ".docker").mkdir(parents=True)
    (tmp_path / "home" / ".docker" / "config.json").write_text(login)
    env = {"HOME": str(tmp_path / "home"), "KEYFERRY_PROC": str(processes)}
    words = ["get", IMAGE, "--docker-config", "auto", "-o", "json", *plain_pod(tmp_path), *node.options()]
    done = run_in_process(*words, cwd=None, **env)
    assert done.returncode == 6, done.stderr
    assert "the node's docker config 'auto' was not given: no kubelet runs on this machine" in done.stderr
    with processes.kubelet(f"--root-dir={tmp_path}", env={"HOME": "/nonexistent"}):
        assert run_in_process(*words, cwd=None, **env).returncode == 1
    with processes.kubelet(f"--root-dir={tmp_path}", env={"HOME": str(tmp_path / "home")}):
        assert '"mine"' in run_in_process(*words, cwd=None, **env).stdout


@pytest.mark.parametrize("command", ["get", "explain"])
def test_a_secret_of_another_namespace_is_not_used(command: str, tmp_path: Path, node: Node) -> None:
    """With a pod, or with its account alone."""
    options = node.add("other", ["else.example"]).options()
    secret = write(tmp_path / "secret.json", pull_secret(namespace="other"))
    by_pod = ["-f", write(tmp_path / "pod.json", pod(imagePullSecrets=[{"name": "regcred"}]))]
    for words in (by_pod, ["--service-account", "shop/default"]):
        done = run_in_process(command, IMAGE, *words, "--secret", secret, *options)
        assert done.returncode == 6, done.stdout
        note = "secret 'regcred' is given, but its namespace is 'other' and the pod's is 'shop': the kubelet does not"
        assert note in done.stdout + done.stderr


def test_a_requested_token_needs_no_file(tmp_path: Path, node: Node, bob: BobsCluster) -> None:
    """The command get has the option as well, for a pod from a file."""
    bob.api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
    bob.api.add(account(), pod())
    node.add("federate", [HOST], AUTH, extra=TAKES_TOKENS)
    file = write(tmp_path / "pod.json", bob.api.objects["", "pods", "shop", "web"])
    words = ["get", IMAGE, "-f", file, *node.options()]
    done = run_in_process(*words)
    assert done.returncode == 6
    assert "add --request-token, or --service-account-token FILE" in done.stderr
    bob.api.node_audiences = {"registry.test"}
    done = bob.run(*words, "--request-token")
    assert done.returncode == 0, done.stderr
    assert len(bob.api.issued) == 1


@pytest.mark.parametrize(
    "junk", [b"two words", b"\x00\x01", "t\u00f6ken".encode(), b'{"kind": "TokenRequest"}\n']
)
def test_a_token_file_with_junk_has_a_clear_message(tmp_path: Path, node: Node, junk: bytes) -> None:
    """It is not passed on, and not shown."""
    path = tmp_path / "token"
    path.write_bytes(junk)
    node.add("federate", [HOST], AUTH, extra=TAKES_TOKENS)
    words = ["--service-account", "shop/default", "--service-account-token", str(path)]
    done = run_in_process("get", IMAGE, *words, *node.options())
    assert done.returncode == 3
    assert f"{path}: is not a token; expected one line, as printed by 'kubectl create token'" in done.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--hosts-dir", "--hosts-dir 'nope': is not a folder"),
        ("--ca-file", "CA file 'nope': does not exist"),
    ],
)
@pytest.mark.parametrize("command", [["can-pull"], ["explain", "--check-registry"]])
def test_a_path_that_is_not_there_has_a_clear_message(option: str, said: str, command: list[str]) -> None:
    """Before the registry is contacted."""
    done = run_in_process(*command, "127.0.0.1:1/x", option, "nope")
    assert done.returncode == 3
    assert said in done.stderr


def test_standard_input_is_a_file(tmp_path: Path) -> None:
    """As kubectl prints it."""
    content = json.dumps(pod(imagePullSecrets=[{"name": "regcred"}])) + "\n---\n" + json.dumps(pull_secret())
    run = [sys.executable, "-m", "keyferry", "explain", "-f", "-"]
    done = subprocess.run(run, input=content, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"\n  pod shop/web on node node1, container app: {IMAGE}\n" in done.stdout
    empty = subprocess.run(run, input="", capture_output=True, text=True, check=False, cwd=tmp_path)
    assert empty.returncode == 3
    assert "standard input: is empty; expected the output of 'kubectl get -o yaml'" in empty.stderr


def test_a_plugin_that_is_not_on_this_machine_cannot_tell(tmp_path: Path, node: Node) -> None:
    """The node's config is given, its plugins are not: the provider matches, and its answer is unknown."""
    node.add("own", [HOST], AUTH)
    file = write(tmp_path / "pod.json", pod(), account())
    done = run_in_process("explain", "-f", file, "--config", str(node.config))
    assert done.returncode == 6, done.stderr
    assert "cannot tell whether the kubelet has a credential: the plugin 'own' was not run\n" in done.stdout
    assert "add --bin-dir DIR with the plugin\n" in done.stdout
    assert not (node.bin_dir / "own.runs").exists()
