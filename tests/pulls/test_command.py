"""``keyferry pull``: into a folder, from a real registry, with every way it can end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.commands import Node, plain_pod, run_in_process
from support.fake_cloud import Reply, serving
from support.images import build, noise, push
from support.plugins import wait_until
from support.pulling import intents_in, records_in, silent_server, write_secret
from support.records import open_quickly
from support.registry import Registry, basic, running

USER, PASSWORD = "alice", "kf-marked-word"
ONE, TWO = build(b"one"), build(b"two", noise(200_000))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        for name, image in (("one", ONE), ("two", TWO)):
            push(server, f"team/{name}", "v1", image, basic(USER, PASSWORD))
        push(server, "team/one", "latest", ONE, basic(USER, PASSWORD))
        yield server


@pytest.fixture
def secret(registry: Registry, tmp_path: Path) -> list[str]:
    """The option that brings in the right credential."""
    return ["--secret", write_secret(tmp_path, "regcred", registry.host, USER, PASSWORD)]


def items(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    found = json.loads(done.stdout)["items"]
    assert isinstance(found, list)
    return found


def test_a_pull_says_what_came_with_whose_credential_and_why(
    registry: Registry, secret: list[str], tmp_path: Path
) -> None:
    """A table for people; the second time the image is there, and nobody is asked."""
    image = f"{registry.host}/team/one:v1"
    done = run_in_process("pull", image, "--to", str(tmp_path / "layout"), *secret)
    assert done.returncode == 0, done.stderr
    header, row = done.stdout.splitlines()
    assert header.split() == ["IMAGE", "RESULT", "ID", "CREDENTIAL", "WHY"]
    assert re.split(r" {3,}", row)[1::2] == ["pulled", f"{USER} of pull secret team/regcred"]
    assert "found no provider config" in done.stderr
    assert f"pulling {image}\n" in done.stderr
    again = run_in_process("pull", image, "--to", str(tmp_path / "layout"), "-q", "-o", "wide")
    assert again.returncode == 0
    assert "it was present, and no records restrict who may use it" in again.stdout
    assert "pulling" not in again.stderr
    assert PASSWORD not in done.stdout + done.stderr


def test_without_a_root_nothing_is_recorded_and_a_policy_makes_no_sense(
    registry: Registry, secret: list[str], tmp_path: Path
) -> None:
    """A kubelet's records are not written by accident."""
    image, folder = f"{registry.host}/team/one:v1", tmp_path / "work"
    folder.mkdir()
    done = run_in_process("pull", image, "--to", "layout", *secret, cwd=folder, HOME=str(folder))
    assert done.returncode == 0
    assert os.listdir(folder) == ["layout"]
    assert sorted(os.listdir(folder / "layout")) == [".keyferry", "blobs", "index.json", "oci-layout"]
    done = run_in_process("pull", image, "--to", "layout", "--policy", "AlwaysVerify", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--root DIR" in done.stderr


def test_with_a_root_the_record_names_the_credential_and_another_pod_is_verified(
    registry: Registry, secret: list[str], tmp_path: Path
) -> None:
    """The document has stable fields, in JSON and YAML alike."""
    image, root = f"{registry.host}/team/one:v1", tmp_path / "root"
    options = ["--to", str(tmp_path / "layout"), "--root", str(root)]
    done = run_in_process("pull", image, *options, *secret, "-o", "json")
    (item,) = items(done)
    config = json.loads(ONE.manifest)["config"]["digest"]
    assert json.loads(done.stdout)["kind"] == "ImagePullList"
    assert (item["result"], item["imageRef"], item["digest"]) == ("pulled", config, ONE.digest)
    assert item["credential"] == {
        "username": USER,
        "key": registry.host,
        "source": {"kind": "pull secret", "name": "team/regcred"},
    }
    assert item["recorded"]["name"] == f"{registry.host}/team/one"  # type: ignore[index] # a document
    assert list(records_in(root)) == [config]
    again = run_in_process("pull", image, *options, *secret, "-o", "yaml")
    (item,) = yaml.safe_load(again.stdout)["items"]
    assert (item["result"], item["decision"]["rule"]) == ("present", "same-credential")
    other = run_in_process("pull", image, *options, "-o", "json")
    (item,) = items(other)
    assert other.returncode == 5
    assert (item["result"], item["error"]["reason"]) == ("failed", "ErrImagePull")  # type: ignore[index]
    assert (item["decision"]["rule"], item["imageRef"]) == ("stranger", "")  # type: ignore[index]
    free = run_in_process("pull", image, *options, "--policy", "NeverVerify")
    assert free.returncode == 0
    assert "the policy requires no verification" in free.stdout
    allow = ["--policy", "NeverVerifyAllowlistedImages", "--allow", f"{registry.host}/team/*"]
    assert run_in_process("pull", image, *options, *allow).returncode == 0
    assert run_in_process("pull", image, *options, "--allow", "x/*").returncode == 2
    for each in (done, again, other):
        assert PASSWORD not in each.stdout + each.stderr


def test_pulls_of_a_process_that_died_are_settled_first(
    registry: Registry, secret: list[str], tmp_path: Path
) -> None:
    """As when a kubelet starts: the image that did arrive has a record of nobody, and must be verified."""
    image, root = f"{registry.host}/team/one:v1", tmp_path / "root"
    to = ["--to", str(tmp_path / "layout")]
    assert run_in_process("pull", image, *to, *secret).returncode == 0
    records = open_quickly(root)
    records.record_intent(image)
    records.close()
    done = run_in_process("pull", f"{registry.host}/team/two:v1", *to, "--root", str(root), *secret)
    assert done.returncode == 0
    assert (
        f"{image!r} was being pulled by a process that died; each pod's access to it will be verified"
        in done.stderr
    )
    assert (intents_in(root), sorted(map(bool, records_in(root).values()))) == ([], [False, True])
    assert run_in_process("pull", image, *to, "--root", str(root)).returncode == 5


def test_several_images_are_pulled_at_once_and_told_in_order(
    registry: Registry, secret: list[str], tmp_path: Path
) -> None:
    """The exit code is that of the first that failed; the others are there."""
    images = [f"{registry.host}/team/{name}" for name in ("two:v1", "none:v1", "one:v1")]
    done = run_in_process(
        "pull", *images, "--to", str(tmp_path / "layout"), "--parallel", "3", *secret, "-o", "json"
    )
    assert done.returncode == 1
    assert [(item["image"], item["result"]) for item in items(done)] == list(
        zip(images, ("pulled", "failed", "pulled"), strict=True)
    )
    assert f"cannot pull {images[1]!r}: {USER} of pull secret team/regcred: not found: " in done.stderr
    assert f"try: keyferry explain {images[1]} {' '.join(secret)} --here\n" in done.stderr


def test_a_plugin_whose_answer_changes_is_run_once_more(registry: Registry, tmp_path: Path) -> None:
    """Its first credential is refused and its second works; with --no-evict it is not asked again."""
    host, node = registry.host, Node(tmp_path)
    again = 'if [ "$(wc -l < "$0.runs")" -gt 1 ]; then sed s/old-word/new-word/ "$0.answer"; exit 0; fi'
    node.add("rotating", [host], before=f'{again}; cat "$0.answer"; exit 0')
    response = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "1h",
        "auth": {host: {"username": "carol", "password": "old-word"}},
    }
    Path(f"{node.bin_dir / 'rotating'}.answer").write_text(json.dumps(response))
    options = [*node.options(), "--to", str(tmp_path / "layout"), "-o", "json"]
    registry.set_users({USER: PASSWORD, "carol": "new-word"})
    try:
        refused = run_in_process("pull", f"{host}/team/one:v1", *options, "--no-evict")
        Path(f"{node.bin_dir / 'rotating'}.runs").unlink()
        done = run_in_process("pull", f"{host}/team/one:v1", *options)
    finally:
        registry.set_users({USER: PASSWORD})
    assert refused.returncode == 5
    assert done.returncode == 0, done.stderr
    (item,) = items(done)
    attempts = [(each["worked"], each["renewed"]) for each in item["attempts"]]  # type: ignore[attr-defined]
    assert attempts == [(False, False), (True, True)]
    assert "carol of provider rotating: refused: " in done.stderr
    assert Path(f"{node.bin_dir / 'rotating'}.runs").read_text().count("run") == 2


def test_each_way_to_fail_has_its_exit_code(registry: Registry, secret: list[str], tmp_path: Path) -> None:
    """Refused 5, plugin failed 4, registry not reached 6, late 124, not there 1, target not usable 3, usage 2."""
    to = ["--to", str(tmp_path / "layout")]
    node = Node(tmp_path).add("broken", [registry.host], before="exit 3")
    with silent_server() as port:
        cases: list[tuple[list[str], int]] = [
            ([f"{registry.host}/team/one:v1", *to], 5),
            ([f"{registry.host}/team/one:v1", *to, *node.options()], 4),
            (["127.0.0.1:1/team/one:v1", *to], 6),
            ([f"127.0.0.1:{port}/team/one:v1", *to, "--pull-timeout", "0.2"], 124),
            ([f"{registry.host}/team/none:v1", *to, *secret], 1),
            ([f"{registry.host}/team/one:v1", *to, *secret, "--pull-policy", "Never"], 1),
            ([f"{registry.host}/UPPER", *to], 2),
            ([f"{registry.host}/team/one:v1", *to, "--cri", "/run/x.sock"], 2),
            ([f"{registry.host}/team/one:v1", *to, "--parallel", "0"], 2),
            ([f"{registry.host}/team/one:v1", "--cri", "unix:///run/no/such.sock"], 3),
            ([f"{registry.host}/team/one:v1", *to, "--config", "/no/such.yaml"], 3),
            ([f"{registry.host}/team/one:v1", "--to", str(tmp_path), *secret], 3),
        ]
        for words, expected in cases:
            done = run_in_process("pull", *words)
            assert (words, done.returncode) == (words, expected), done.stderr
            assert "Traceback" not in done.stderr
            assert done.stderr.strip()


@pytest.mark.parametrize("parallel", ["1", "2"])
def test_an_interrupt_ends_it_at_once(tmp_path: Path, parallel: str) -> None:
    """Long before the registry would be given up. A pull that was cut off stays noted."""
    root = tmp_path / "root"
    with silent_server() as port:
        images = [f"127.0.0.1:{port}/team/{name}:v1" for name in ("one", "two")]
        words = [
            "pull",
            *images,
            "--to",
            str(tmp_path / "layout"),
            "--root",
            str(root),
            "--parallel",
            parallel,
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "keyferry", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            wait_until(lambda: len(intents_in(root)) == int(parallel), "the notes of the pulls")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert set(intents_in(root)) <= set(images)
    if parallel == "1":
        assert intents_in(root) == images[:1]
    assert "interrupted" in errors
    assert "Traceback" not in errors


def test_a_token_that_was_not_given_is_a_failure_of_a_pull(tmp_path: Path) -> None:
    """Nothing is pulled in silence without the provider that could not be asked: it is told in every format."""
    extra = (
        "  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n"
    )
    node = Node(tmp_path).add("sa", ["127.0.0.1:1"], extra=extra)
    words = [
        "pull",
        "127.0.0.1:1/app:v1",
        "--to",
        str(tmp_path / "to"),
        *plain_pod(tmp_path),
        *node.options(),
    ]
    done = run_in_process(*words, "-o", "json")
    assert done.returncode == 4
    assert "a token of the service account 'team/default' was not given" in done.stderr
    (failure,) = json.loads(done.stdout)["items"][0]["failures"]
    assert (failure["provider"], failure["cause"]) == ("sa", "service-account")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_registry_that_does_not_say_is_unknown_as_for_can_pull(tmp_path: Path, status: int) -> None:
    """It is no word about the image that the registry is not there, or has a problem of its own."""
    with serving(lambda _: Reply(status=status)) as server:
        image = f"127.0.0.1:{server.port}/team/one:v1"
        (tmp_path / "no-hosts").mkdir()
        checked = run_in_process(
            "can-pull", image, *plain_pod(tmp_path), "--hosts-dir", str(tmp_path / "no-hosts")
        )
        done = run_in_process("pull", image, *plain_pod(tmp_path), "--to", str(tmp_path / "layout"))
    assert (checked.returncode, done.returncode) == (6, 6), done.stderr
    assert " ErrImagePull: " in done.stdout
    assert f"status {status}" in done.stdout
    assert "the registry gave no conclusive response" in checked.stdout


def test_a_secret_that_the_pod_lists_is_missed_before_the_pull(registry: Registry, tmp_path: Path) -> None:
    spec = {"containers": [], "imagePullSecrets": [{"name": "regcred"}]}
    pod = tmp_path / "pod.json"
    pod.write_text(
        json.dumps({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
    )
    image = f"{registry.host}/team/one:v1"
    done = run_in_process("pull", image, "-f", str(pod), "--to", str(tmp_path / "layout"))
    missed, failed = (
        done.stderr.index("'regcred', which the pod lists, was not given"),
        done.stderr.index("cannot pull"),
    )
    assert missed < failed
