"""``keyferry can-pull`` and ``keyferry explain --check-registry``, as processes, against a real registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.certificates import Authority as Signer
from support.commands import Node, plain_pod, run_keyferry
from support.fake_cloud import Authority, Reply, serving
from support.images import build, push
from support.kube import TOKEN, Kube
from support.kubernetes_api import KubernetesApi, account, pod, pull_secret
from support.registry import Registry, basic, running
from support.schemas import check_document

USER, PASSWORD = "alice", "kf-marked-word"
IMAGE = build(b"hello")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/app", "v1", IMAGE, basic(USER, PASSWORD))
        yield server


def auth(host: str, password: str = PASSWORD, user: str = USER) -> str:
    return json.dumps({host: {"username": user, "password": password}})


def node_for(folder: Path, host: str, *passwords: str, before: str = "") -> list[str]:
    node = Node(folder)
    for at, password in enumerate(passwords):
        node.add(f"plugin{at}", [host], auth(host, password), before=before)
    # Not this machine's mirrors, should it have any.
    (folder / "no-hosts").mkdir(exist_ok=True)
    return [*node.options(), "--hosts-dir", str(folder / "no-hosts")]


def test_yes_is_exit_code_0_and_says_with_which_credential(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    done = run_keyferry("can-pull", image, *node_for(tmp_path, registry.host, "wrong", PASSWORD))
    assert done.returncode == 0, done.stderr
    first, _, header, refused, worked = done.stdout.splitlines()
    assert first == f"yes: {image} can be pulled with {USER} of provider plugin1, credential 2 of 2"
    assert header.split()[:3] == ["USERNAME", "KEY", "SOURCE"]
    assert refused.split(maxsplit=4)[:4] == [USER, registry.host, "provider", "plugin0"]
    assert "unauthorized: authentication required" in refused
    assert worked.endswith("yes, it may pull")
    assert PASSWORD not in done.stdout + done.stderr


def test_refused_by_all_is_exit_code_5(registry: Registry, tmp_path: Path) -> None:
    options = node_for(tmp_path, registry.host, "wrong", "worse")
    words = ["can-pull", f"{registry.host}/team/app:v1", *options]
    done = run_keyferry(*words, *plain_pod(tmp_path))
    assert done.returncode == 5
    assert done.stdout.startswith("no: ")
    assert "cannot be pulled with any of the 2 credentials" in done.stdout
    unsure = run_keyferry(*words, "-o", "json")
    assert unsure.returncode == 6
    assert "the pod was not given" in unsure.stderr
    document = json.loads(unsure.stdout)
    assert (document["canPull"], document["outcome"]) == (None, "unknown")
    assert [each["input"] for each in document["missing"]] == ["pod"]


def test_no_such_image_is_exit_code_1(registry: Registry, tmp_path: Path) -> None:
    words = ["can-pull", f"{registry.host}/team/app:nothing", *node_for(tmp_path, registry.host, PASSWORD)]
    done = run_keyferry(*words, *plain_pod(tmp_path))
    assert done.returncode == 1
    assert "manifest unknown" in done.stdout
    # Registries hide what a user may not have: a secret of the pod's may be another user's.
    unsure = run_keyferry(*words)
    assert unsure.returncode == 6
    assert unsure.stdout.startswith("cannot tell whether")
    assert "manifest unknown" in unsure.stdout
    explained = run_keyferry("explain", *words[1:], "--check-registry")
    assert explained.returncode == 6
    first = explained.stdout.splitlines()[0]
    assert first.startswith("? cannot tell whether ")
    assert first.endswith("; the registry has no such image or tag, or hides it from users without access")


def test_without_a_credential_the_attempt_is_anonymous(registry: Registry, tmp_path: Path) -> None:
    options = node_for(tmp_path, "other.io", PASSWORD)
    done = run_keyferry("can-pull", f"{registry.host}/team/app:v1", *plain_pod(tmp_path), *options)
    assert done.returncode == 5
    assert "there is no credential" in done.stdout
    assert "(anonymous)" in done.stdout


def test_a_plugin_that_failed_is_the_reason_where_it_left_us_without(
    registry: Registry, tmp_path: Path
) -> None:
    options = node_for(tmp_path, registry.host, PASSWORD, before="exit 3")
    done = run_keyferry("can-pull", f"{registry.host}/team/app:v1", *options)
    assert done.returncode == 4
    assert "plugin 'plugin0': exited with status 3" in done.stderr


def test_a_registry_that_is_not_there_is_exit_code_6(tmp_path: Path) -> None:
    options = [*plain_pod(tmp_path), *node_for(tmp_path, "127.0.0.1:1", PASSWORD)]
    done = run_keyferry("can-pull", "127.0.0.1:1/team/app", *options)
    assert done.returncode == 6
    assert "connection refused" in done.stdout
    assert done.stdout.startswith("cannot tell whether 127.0.0.1:1/team/app can be pulled")
    asked = run_keyferry("explain", "127.0.0.1:1/team/app", "--check-registry", *options)
    assert asked.returncode == 6
    assert "? cannot tell whether" in asked.stdout


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_registry_that_does_not_say_is_exit_code_6(tmp_path: Path, status: int) -> None:
    """Too many requests or an error of its own is no word about the image."""
    with serving(lambda _: Reply(status=status)) as server:
        host = f"127.0.0.1:{server.port}"
        options = [*plain_pod(tmp_path), *node_for(tmp_path, host, PASSWORD)]
        done = run_keyferry("can-pull", f"{host}/team/app", *options)
    assert done.returncode == 6, done.stdout
    assert "the registry gave no conclusive response" in done.stdout


def folder_of(host: str) -> str:
    """The folder of hosts of a registry with a port."""
    return f"{host.replace(':', '_')}_"


def write_hosts(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "hosts.toml").write_text(text)
    return folder.parent


MIRROR = '[host."http://127.0.0.1:9"]\n  capabilities = ["pull", "resolve"]\n'


@pytest.mark.parametrize("tag", ["v1", "nothing"])
def test_a_no_is_not_sure_where_a_mirror_of_containerd_does_not_answer(
    registry: Registry, tmp_path: Path, tag: str
) -> None:
    """Refused or not there: the mirror, which the runtime asks first, may have it."""
    hosts = write_hosts(tmp_path / "hosts" / folder_of(registry.host), MIRROR)
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, "wrong" if tag == "v1" else PASSWORD)]
    words = [f"{registry.host}/team/app:{tag}", *options, "--hosts-dir", str(hosts)]
    for command in (["can-pull"], ["explain", "--check-registry"]):
        done = run_keyferry(*command, *words)
        assert done.returncode == 6, done.stdout
        assert "http://127.0.0.1:9/v2/team/app/manifests/" in done.stdout
        assert "connection refused" in done.stdout
    document = json.loads(run_keyferry("can-pull", *words, "-o", "json").stdout)
    assert document["canPull"] is None
    assert document["mirrors"]["hosts"] == ["http://127.0.0.1:9"]
    causes = [each["cause"] for each in document["attempts"][0]["endpoints"]]
    assert causes == ["unreachable", "refused" if tag == "v1" else "not-found"]


def test_the_registry_is_asked_after_a_mirror_that_fails(registry: Registry, tmp_path: Path) -> None:
    hosts = write_hosts(tmp_path / "hosts" / "_default", MIRROR)
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, PASSWORD), "--hosts-dir", str(hosts)]
    done = run_keyferry("can-pull", f"{registry.host}/team/app:v1", *options)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(
        f"yes: {registry.host}/team/app:v1 can be pulled with {USER} of provider plugin0\n"
    )
    assert "connection refused; " in " ".join(done.stdout.split())
    assert f"{registry.host}: yes, it may pull" in " ".join(done.stdout.split())


def test_an_image_that_cri_o_blocks_cannot_be_pulled(registry: Registry, tmp_path: Path) -> None:
    """Whatever the registry says, which is asked all the same."""
    conf = tmp_path / "registries.conf"
    conf.write_text(f'[[registry]]\nlocation = "{registry.host}"\nblocked = true\n')
    options = [
        *plain_pod(tmp_path),
        *node_for(tmp_path, registry.host, PASSWORD)[:-2],
        "--registries-conf",
        str(conf),
    ]
    words = [f"{registry.host}/team/app:v1", *options]
    done = run_keyferry("can-pull", *words)
    assert (done.returncode, done.stderr) == (1, "")
    verdict = f"no: {words[0]}: CRI-O does not pull it: {conf} blocks it"
    assert done.stdout.startswith(f"{verdict}\n")
    explained = run_keyferry("explain", "--check-registry", *words)
    said = " ".join(explained.stdout.split())
    assert f"replace 'blocked = true' in line 3 of {conf} by this, then reload CRI-O: blocked = false" in said
    assert "check the name and the port" not in said
    blocked = f"✗ the image cannot be pulled: line 3 of {conf} blocks the image, whatever the registry says"
    assert (explained.returncode, explained.stdout.splitlines()[0]) == (1, blocked)


def test_a_registry_that_does_not_answer_is_exit_code_124(tmp_path: Path) -> None:
    with serving(lambda _: Reply(after=10, is_closed=True)) as server:
        host = f"127.0.0.1:{server.port}"
        options = [*node_for(tmp_path, host, PASSWORD), "--registry-timeout", "1"]
        done = run_keyferry("can-pull", f"{host}/team/app", *options)
    assert done.returncode == 124, done.stdout
    assert "no response in time" in done.stdout


def test_a_bad_name_and_a_missing_ca_file_are_said(registry: Registry, tmp_path: Path) -> None:
    options = node_for(tmp_path, registry.host, PASSWORD)
    assert run_keyferry("can-pull", "UPPER CASE", *options).returncode == 2
    missing = run_keyferry("can-pull", f"{registry.host}/team/app:v1", *options, "--ca-file", "/none.pem")
    assert missing.returncode == 3
    assert "CA file '/none.pem': does not exist" in missing.stderr


def test_all_images_of_a_pod_of_a_cluster_are_checked(registry: Registry, tmp_path: Path) -> None:
    """With the pod's own secrets; the worst result is the exit code."""
    images = (f"{registry.host}/team/app:v1", f"{registry.host}/team/app:nothing")
    signer = Signer()
    with KubernetesApi(signer) as api:
        api.add_user(TOKEN, "bob")
        api.permit(TOKEN, "get list", "pods secrets serviceaccounts events", "shop")
        secret = pull_secret(host=registry.host, login=f"{USER}:{PASSWORD}")
        api.add(account(), pod(images=images, imagePullSecrets=[{"name": "regcred"}]), secret)
        kube = Kube(tmp_path)
        kube.write(api.url, ca=signer.pem, user={"token": TOKEN})
        (tmp_path / "config.json").write_text("{}")
        given = [*node_for(tmp_path, "other.io", PASSWORD), "--docker-config", str(tmp_path / "config.json")]
        words = ["can-pull", "pod/web", "-n", "shop", "--kubeconfig", str(kube.path), *given]
        done = run_keyferry(*words, "-o", "json", KUBERC="")
        table = run_keyferry(*words, KUBERC="")
        absent = run_keyferry("can-pull", "pod/nosuch", *words[2:], KUBERC="")
    assert (done.returncode, table.returncode) == (1, 1), done.stderr
    document = json.loads(done.stdout)
    check_document(document)
    assert (document["kind"], document["namespace"], document["pod"]) == ("ImagePullCheckList", "shop", "web")
    assert [(each["image"], each["canPull"]) for each in document["items"]] == [
        (images[0], True),
        (images[1], False),
    ]
    assert table.stdout.startswith(
        f"yes: {images[0]} can be pulled with {USER} of pull secret shop/regcred\n"
    )
    assert f"\n\nno: the registry has no {images[1]}, or hides it from users without access\n" in table.stdout
    assert PASSWORD not in done.stdout + done.stderr + table.stdout + table.stderr
    assert absent.returncode == 3
    assert "there is no pod 'nosuch' in namespace 'shop'" in absent.stderr


def test_json_and_yaml_say_the_same_with_stable_fields(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    options = node_for(tmp_path, registry.host, "wrong", PASSWORD)
    document = json.loads(run_keyferry("can-pull", image, "-o", "json", *options).stdout)
    assert document == yaml.safe_load(run_keyferry("can-pull", image, "-o", "yaml", *options).stdout)
    assert (document["apiVersion"], document["kind"]) == ("keyferry.dev/v1alpha1", "ImagePullCheck")
    assert document["canPull"] is True
    refused, worked = document["attempts"]
    assert (refused["cause"], refused["status"]) == ("refused", 401)
    assert refused["credential"]["source"] == {"kind": "provider", "name": "plugin0"}
    assert worked == {
        "credential": {
            "username": USER,
            "key": registry.host,
            "source": {"kind": "provider", "name": "plugin1"},
        },
        "worked": True,
        "asked": True,
        "digest": IMAGE.digest,
        "cause": "",
        "status": 0,
        "message": "yes, it may pull",
        "endpoints": [],
    }
    assert PASSWORD not in json.dumps(document)


def test_over_tls_a_ca_file_or_insecure_is_needed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.context("127.0.0.1")
    (pem,) = tmp_path.glob("server-*.pem")
    with running(tmp_path / "registry", pem=pem, bundle=authority.bundle) as registry:
        registry.set_users({USER: PASSWORD})
        push(registry, "team/app", "v1", IMAGE, basic(USER, PASSWORD))
        (tmp_path / "node").mkdir()
        words = [
            "can-pull",
            f"{registry.host}/team/app:v1",
            *node_for(tmp_path / "node", registry.host, PASSWORD),
        ]
        untrusted = run_keyferry(*words)
        assert untrusted.returncode == 6
        assert "--ca-file" in untrusted.stdout
        assert run_keyferry(*words, "--ca-file", str(authority.bundle)).returncode == 0
        assert run_keyferry(*words, "--insecure").returncode == 0


def test_explain_adds_what_the_registry_says_when_it_is_asked(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    options = node_for(tmp_path, registry.host, "wrong", PASSWORD)
    plain = run_keyferry("explain", image, "-o", "wide", *options)
    assert "THE REGISTRY'S RESPONSE" not in plain.stdout
    short = run_keyferry("explain", image, "--check-registry", *options)
    worked = f"✓ yes: {image} can be pulled with {USER} of provider plugin1, credential 2 of 2\n"
    assert (short.returncode, short.stdout.startswith(worked)) == (0, True)
    done = run_keyferry("explain", image, "--check-registry", "-o", "wide", *options)
    assert done.returncode == 0
    section = done.stdout.partition("THE REGISTRY'S RESPONSE TO EACH\n")[2].splitlines()[:2]
    assert section[0].startswith(f"  ✗ 1. {USER} of provider plugin0: does not accept the credential")
    assert section[1] == f"  ✓ 2. {USER} of provider plugin1: yes, it may pull"
    assert PASSWORD not in done.stdout + done.stderr


def test_explain_in_json_has_the_same_field_and_exit_code(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, "wrong")]
    assert "registry" not in json.loads(run_keyferry("explain", image, "-o", "json", *options).stdout)
    done = run_keyferry("explain", image, "--check-registry", "-o", "json", *options)
    assert done.returncode == 5
    checked = json.loads(done.stdout)["registry"]
    assert checked["canPull"] is False
    assert checked["attempts"][0]["status"] == 401


SERVER = 'server = "http://127.0.0.1:9"\n'
MOVED = '[[registry]]\nprefix = "{host}"\nlocation = "{place}"\ninsecure = true\n'


@pytest.mark.parametrize("folder", ["own", "_default"])
def test_a_registry_that_containerd_never_asks_decides_nothing(
    registry: Registry, tmp_path: Path, folder: str
) -> None:
    name = folder_of(registry.host) if folder == "own" else folder
    hosts = write_hosts(tmp_path / "hosts" / name, SERVER)
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, PASSWORD), "--hosts-dir", str(hosts)]
    for command in (["can-pull"], ["explain", "--check-registry"]):
        done = run_keyferry(*command, f"{registry.host}/team/app:v1", *options)
        assert done.returncode == 6, done.stdout
        said = " ".join(done.stdout.split())
        assert "cannot tell whether" in said
        assert "http://127.0.0.1:9/v2/team/app/manifests/v1: cannot be reached: connection refused" in said


@pytest.mark.parametrize(
    ("place", "code"), [("127.0.0.1:9", 6), ("{host}/other", 1), ("{host}", 0)], ids=["gone", "moved", "same"]
)
def test_a_prefix_that_cri_o_moves_is_asked_for_where_it_is(
    registry: Registry, tmp_path: Path, place: str, code: int
) -> None:
    """Also where the host is the same one, and the repository there is another."""
    conf = tmp_path / "registries.conf"
    conf.write_text(MOVED.format(host=registry.host, place=place.format(host=registry.host)))
    node = node_for(tmp_path, registry.host, PASSWORD)[:-2]
    options = [*plain_pod(tmp_path), *node, "--registries-conf", str(conf)]
    done = run_keyferry("can-pull", f"{registry.host}/team/app:v1", *options)
    assert done.returncode == code, done.stdout


def manifest_of(kind: str | None, body: bytes = IMAGE.manifest) -> Reply:
    return Reply(body=body, headers={} if kind is None else {"Content-Type": kind})


def test_an_anonymous_success_is_no_yes_while_a_credential_may_be_missing(tmp_path: Path) -> None:
    """A kubelet that has a credential does not try without one."""
    with serving(lambda _: manifest_of(IMAGE.media_type)) as server:
        host = f"127.0.0.1:{server.port}"
        words = [f"{host}/team/app", *node_for(tmp_path, "other.io", PASSWORD)]
        (tmp_path / "broken").mkdir()
        broken = node_for(tmp_path / "broken", host, PASSWORD, before="exit 3")
        # A plugin that failed leaves the kubelet without a credential, and the pod may still have one.
        assert run_keyferry("can-pull", f"{host}/team/app", *broken).returncode == 6
        sure = run_keyferry("can-pull", *words, *plain_pod(tmp_path))
        assert (sure.returncode, sure.stdout.startswith("yes: ")) == (0, True)
        for command in (["can-pull"], ["explain", "--check-registry"]):
            done = run_keyferry(*command, *words)
            assert done.returncode == 6, done.stdout
            said = " ".join((done.stdout + done.stderr).split())
            assert "without a credential, but a kubelet that has one does not try that" in said
            assert "-f " in said


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("text/html", b"<html>sign in</html>", 6),
        (None, b"", 6),
        (None, IMAGE.manifest, 0),
        ("application/json", IMAGE.manifest, 0),
        (f"{IMAGE.media_type}; charset=utf-8", IMAGE.manifest, 0),
        ("application/vnd.docker.distribution.manifest.v1+prettyjws", b"{}", 0),
    ],
    ids=["html", "empty", "no type", "json", "parameter", "schema 1"],
)
def test_a_success_counts_only_if_it_is_about_a_manifest(
    tmp_path: Path, kind: str | None, body: bytes, code: int
) -> None:
    with serving(lambda _: manifest_of(kind, body)) as server:
        host = f"127.0.0.1:{server.port}"
        words = [f"{host}/team/app", *plain_pod(tmp_path), *node_for(tmp_path, host, PASSWORD)]
        done = run_keyferry("can-pull", *words)
    assert done.returncode == code, done.stdout
    if code:
        assert "sends something else than an image manifest" in done.stdout
    else:
        # It was never asked for: nothing is known of the credential.
        assert done.stdout.startswith(f"yes: {words[0]} can be pulled without a credential being asked for\n")
