"""``keyferry can-pull`` and what ``explain`` says of decisions and mirrors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from keyferry.images.keyring import credential_hash
from support.certificates import Authority as Signer
from support.commands import Node, plain_pod, run_in_process
from support.fake_cloud import Authority, Reply, serving
from support.images import build, push
from support.kube import TOKEN, Kube
from support.kubelets import Processes
from support.kubernetes_api import KubernetesApi, account, pod, pull_secret
from support.mirrors import CERTS, CONFIG, MIRROR, REGISTRIES, write
from support.pulling import silent_server, write_secret
from support.records import folder_of, open_quickly, plant, secret, with_secrets
from support.registry import Registry, basic, running
from support.schemas import check_document

USER, PASSWORD = "alice", "kf-marked-word"
BUILT = build(b"hello")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/app", "v1", BUILT, basic(USER, PASSWORD))
        yield server


def node_for(folder: Path, host: str, *passwords: str, before: str = "") -> list[str]:
    """Options of a node whose plugins give these passwords, one each, and that has no mirrors."""
    node = Node(folder)
    for at, password in enumerate(passwords):
        auth = json.dumps({host: {"username": USER, "password": password}})
        node.add(f"plugin{at}", [host], auth, before=before)
    (folder / "no-hosts").mkdir(exist_ok=True)
    return [*node.options(), "--hosts-dir", str(folder / "no-hosts")]


def both(words: list[str], code: int) -> list[str]:
    """What can-pull prints with this exit code, and explain with the same; each on one line."""
    shown = []
    for command in (["can-pull"], ["explain", "--check-registry"]):
        done = run_in_process(*command, *words)
        assert done.returncode == code, done.stdout
        shown.append(" ".join((done.stdout + done.stderr).split()))
    return shown


def test_yes_is_exit_code_0_and_says_with_which_credential(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    done = run_in_process("can-pull", image, *node_for(tmp_path, registry.host, "wrong", PASSWORD))
    assert done.returncode == 0, done.stderr
    first, _, header, refused, worked = done.stdout.splitlines()
    assert first == f"yes: {image} can be pulled with {USER} of provider plugin1, credential 2 of 2"
    assert header.split()[:3] == ["USERNAME", "KEY", "SOURCE"]
    assert refused.split(maxsplit=4)[:4] == [USER, registry.host, "provider", "plugin0"]
    assert "unauthorized: authentication required" in refused
    assert worked.endswith("yes, it may pull")
    assert PASSWORD not in done.stdout + done.stderr


def test_refused_by_all_is_exit_code_5(registry: Registry, tmp_path: Path) -> None:
    """If the pod is known: else its secrets may be right."""
    options = node_for(tmp_path, registry.host, "wrong", "worse")
    words = ["can-pull", f"{registry.host}/team/app:v1", *options]
    done = run_in_process(*words, *plain_pod(tmp_path))
    assert done.returncode == 5
    assert done.stdout.startswith("no: ")
    assert "cannot be pulled with any of the 2 credentials" in done.stdout
    unsure = run_in_process(*words, "-o", "json")
    assert unsure.returncode == 6
    assert "the pod was not given" in unsure.stderr
    document = json.loads(unsure.stdout)
    assert (document["canPull"], document["outcome"]) == (None, "unknown")
    assert [each["input"] for each in document["missing"]] == ["pod"]


def test_no_such_image_is_exit_code_1(registry: Registry, tmp_path: Path) -> None:
    """If the pod is known: registries hide what a user may not have, and its secrets may be another user's."""
    words = [f"{registry.host}/team/app:nothing", *node_for(tmp_path, registry.host, PASSWORD)]
    done = run_in_process("can-pull", *words, *plain_pod(tmp_path))
    assert done.returncode == 1
    assert "manifest unknown" in done.stdout
    checked, explained = both(words, 6)
    assert checked.startswith("cannot tell whether")
    assert "manifest unknown" in checked
    assert explained.startswith("? cannot tell whether ")
    assert "; the registry has no such image or tag, or hides it from users without access" in explained


def test_without_a_credential_the_attempt_is_anonymous(registry: Registry, tmp_path: Path) -> None:
    options = node_for(tmp_path, "other.io", PASSWORD)
    done = run_in_process("can-pull", f"{registry.host}/team/app:v1", *plain_pod(tmp_path), *options)
    assert done.returncode == 5
    assert "there is no credential" in done.stdout
    assert "(anonymous)" in done.stdout


def test_a_plugin_that_failed_is_the_reason_where_it_left_us_without(
    registry: Registry, tmp_path: Path
) -> None:
    options = node_for(tmp_path, registry.host, PASSWORD, before="exit 3")
    done = run_in_process("can-pull", f"{registry.host}/team/app:v1", *options)
    assert done.returncode == 4
    assert "plugin 'plugin0': exited with status 3" in done.stderr


def test_a_registry_that_is_not_there_is_exit_code_6(tmp_path: Path) -> None:
    words = ["127.0.0.1:1/team/app", *plain_pod(tmp_path), *node_for(tmp_path, "127.0.0.1:1", PASSWORD)]
    checked, explained = both(words, 6)
    assert "connection refused" in checked
    assert checked.startswith("cannot tell whether 127.0.0.1:1/team/app can be pulled")
    assert explained.startswith("? cannot tell whether")


def write_hosts(folder: Path, name: str, text: str) -> list[str]:
    """The option for a folder of hosts, in which a registry has this file."""
    (folder / "hosts" / name).mkdir(parents=True)
    (folder / "hosts" / name / "hosts.toml").write_text(text)
    return ["--hosts-dir", str(folder / "hosts")]


def hosts_folder_of(host: str) -> str:
    """The folder of hosts of a registry with a port."""
    return f"{host.replace(':', '_')}_"


SILENT_MIRROR = '[host."http://127.0.0.1:9"]\n  capabilities = ["pull", "resolve"]\n'


@pytest.mark.parametrize("tag", ["v1", "nothing"])
def test_a_no_is_not_sure_where_a_mirror_of_containerd_does_not_answer(
    registry: Registry, tmp_path: Path, tag: str
) -> None:
    """Refused or not there: the mirror, which the runtime asks first, may have it."""
    password = "wrong" if tag == "v1" else PASSWORD
    node = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, password)]
    hosts = write_hosts(tmp_path, hosts_folder_of(registry.host), SILENT_MIRROR)
    words = [f"{registry.host}/team/app:{tag}", *node, *hosts]
    for said in both(words, 6):
        assert "http://127.0.0.1:9/v2/team/app/manifests/" in said
        assert "connection refused" in said
    document = json.loads(run_in_process("can-pull", *words, "-o", "json").stdout)
    assert document["canPull"] is None
    assert document["mirrors"]["hosts"] == ["http://127.0.0.1:9"]
    causes = [each["cause"] for each in document["attempts"][0]["endpoints"]]
    assert causes == ["unreachable", "refused" if tag == "v1" else "not-found"]


def test_the_registry_is_asked_after_a_mirror_that_fails(registry: Registry, tmp_path: Path) -> None:
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, PASSWORD)]
    hosts = write_hosts(tmp_path, "_default", SILENT_MIRROR)
    done = run_in_process("can-pull", f"{registry.host}/team/app:v1", *options, *hosts)
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
    node = node_for(tmp_path, registry.host, PASSWORD)[:-2]
    words = [f"{registry.host}/team/app:v1", *plain_pod(tmp_path), *node, "--registries-conf", str(conf)]
    checked, explained = both(words, 1)
    assert checked.startswith(f"no: {words[0]}: CRI-O does not pull it: {conf} blocks it")
    assert explained.startswith(
        f"✗ the image cannot be pulled: line 3 of {conf} blocks the image, whatever the registry says"
    )
    cure = f"replace 'blocked = true' in line 3 of {conf} by this, then reload CRI-O: blocked = false"
    assert cure in explained
    assert "check the name and the port" not in explained


def test_a_registry_that_does_not_answer_is_exit_code_124(tmp_path: Path) -> None:
    with silent_server() as port:
        host = f"127.0.0.1:{port}"
        options = [*node_for(tmp_path, host, PASSWORD), "--registry-timeout", "0.5"]
        done = run_in_process("can-pull", f"{host}/team/app", *options)
    assert done.returncode == 124, done.stdout
    assert "no response in time" in done.stdout


def test_a_bad_name_and_a_missing_ca_file_are_said(registry: Registry, tmp_path: Path) -> None:
    options = node_for(tmp_path, registry.host, PASSWORD)
    assert run_in_process("can-pull", "UPPER CASE", *options).returncode == 2
    missing = run_in_process("can-pull", f"{registry.host}/team/app:v1", *options, "--ca-file", "/none.pem")
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
        done = run_in_process(*words, "-o", "json", KUBERC="")
        table = run_in_process(*words, KUBERC="")
        absent = run_in_process("can-pull", "pod/nosuch", *words[2:], KUBERC="")
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
    document = json.loads(run_in_process("can-pull", image, "-o", "json", *options).stdout)
    assert document == yaml.safe_load(run_in_process("can-pull", image, "-o", "yaml", *options).stdout)
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
        "digest": BUILT.digest,
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
        push(registry, "team/app", "v1", BUILT, basic(USER, PASSWORD))
        (tmp_path / "node").mkdir()
        words = [
            "can-pull",
            f"{registry.host}/team/app:v1",
            *node_for(tmp_path / "node", registry.host, PASSWORD),
        ]
        untrusted = run_in_process(*words)
        assert untrusted.returncode == 6
        assert "--ca-file" in untrusted.stdout
        assert run_in_process(*words, "--ca-file", str(authority.bundle)).returncode == 0
        assert run_in_process(*words, "--insecure").returncode == 0


def test_explain_adds_what_the_registry_says_when_it_is_asked(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    options = node_for(tmp_path, registry.host, "wrong", PASSWORD)
    plain = run_in_process("explain", image, "-o", "wide", *options)
    assert "THE REGISTRY'S RESPONSE" not in plain.stdout
    short = run_in_process("explain", image, "--check-registry", *options)
    worked = f"✓ yes: {image} can be pulled with {USER} of provider plugin1, credential 2 of 2\n"
    assert (short.returncode, short.stdout.startswith(worked)) == (0, True)
    done = run_in_process("explain", image, "--check-registry", "-o", "wide", *options)
    assert done.returncode == 0
    section = done.stdout.partition("THE REGISTRY'S RESPONSE TO EACH\n")[2].splitlines()[:2]
    assert section[0].startswith(f"  ✗ 1. {USER} of provider plugin0: does not accept the credential")
    assert section[1] == f"  ✓ 2. {USER} of provider plugin1: yes, it may pull"
    assert PASSWORD not in done.stdout + done.stderr


def test_explain_in_json_has_the_same_field_and_exit_code(registry: Registry, tmp_path: Path) -> None:
    image = f"{registry.host}/team/app:v1"
    options = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, "wrong")]
    assert "registry" not in json.loads(run_in_process("explain", image, "-o", "json", *options).stdout)
    done = run_in_process("explain", image, "--check-registry", "-o", "json", *options)
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
    node = [*plain_pod(tmp_path), *node_for(tmp_path, registry.host, PASSWORD)]
    hosts = write_hosts(tmp_path, hosts_folder_of(registry.host) if folder == "own" else folder, SERVER)
    for said in both([f"{registry.host}/team/app:v1", *node, *hosts], 6):
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
    done = run_in_process("can-pull", f"{registry.host}/team/app:v1", *options)
    assert done.returncode == code, done.stdout


def manifest_of(kind: str | None, body: bytes = BUILT.manifest) -> Reply:
    return Reply(body=body, headers={} if kind is None else {"Content-Type": kind})


def test_an_anonymous_success_is_no_yes_while_a_credential_may_be_missing(tmp_path: Path) -> None:
    """A kubelet that has a credential does not try without one."""
    with serving(lambda _: manifest_of(BUILT.media_type)) as server:
        host = f"127.0.0.1:{server.port}"
        words = [f"{host}/team/app", *node_for(tmp_path, "other.io", PASSWORD)]
        (tmp_path / "broken").mkdir()
        broken = node_for(tmp_path / "broken", host, PASSWORD, before="exit 3")
        # A plugin that failed leaves the kubelet without a credential, and the pod may still have one.
        assert run_in_process("can-pull", f"{host}/team/app", *broken).returncode == 6
        sure = run_in_process("can-pull", *words, *plain_pod(tmp_path))
        assert (sure.returncode, sure.stdout.startswith("yes: ")) == (0, True)
        for said in both(words, 6):
            assert "without a credential, but a kubelet that has one does not try that" in said
            assert "-f " in said


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("text/html", b"<html>sign in</html>", 6),
        (None, b"", 6),
        (None, BUILT.manifest, 0),
        ("application/json", BUILT.manifest, 0),
        (f"{BUILT.media_type}; charset=utf-8", BUILT.manifest, 0),
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
        done = run_in_process("can-pull", *words)
    assert done.returncode == code, done.stdout
    if code:
        assert "sends something else than an image manifest" in done.stdout
    else:
        # It was never asked for: nothing is known of the credential.
        assert done.stdout.startswith(f"yes: {words[0]} can be pulled without a credential being asked for\n")


IMAGE, REF = "reg.io/team/app:v1", "sha256:" + "a" * 64
HASH = credential_hash("user", "kf-marked-word")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    records = open_quickly(tmp_path / "root")
    records.record_pulled(IMAGE, REF, with_secrets(secret("s1", HASH)))
    return tmp_path / "root"


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    return Node(tmp_path).add("plugin", ["other.io"]).options()


def state_of(root: Path) -> list[tuple[str, int, bytes]]:
    files = sorted(each for each in root.rglob("*") if each.is_file())
    return [(str(each), each.stat().st_mtime_ns, each.read_bytes()) for each in files]


def access(*words: str) -> dict[str, object]:
    done = run_in_process("explain", *words, "-o", "json")
    found = json.loads(done.stdout)["access"]
    assert isinstance(found, dict)
    return found


def test_it_says_by_which_record_policy_and_rule(root: Path, config: list[str], tmp_path: Path) -> None:
    """A secret with another name and the same login stands for the recorded one; nothing is written down."""
    before = state_of(root)
    own = write_secret(tmp_path, "mine", "reg.io", "user", "kf-marked-word")
    done = run_in_process("explain", IMAGE, *config, "--root", str(root), "--secret", own, "-o", "wide")
    part = done.stdout.partition("THE IMAGE ON THE NODE\n")[2]
    assert part.startswith(
        "  the image is on the node, and this pod may use it without a pull: "
        "the pod has a credential that the image was"
    )
    assert f"- record {REF}: recorded as pulled under 'reg.io/team/app'" in part
    assert "- policy NeverVerifyPreloadedImages: the image was pulled by the kubelet" in part
    assert "- credential team/mine: the pod's secret team/mine matches the recorded secret ns/s1" in part
    assert "kf-marked-word" not in done.stdout
    assert HASH not in done.stdout
    assert state_of(root) == before


def test_without_the_pod_nobody_knows_whether_it_may_use_the_image(
    root: Path, config: list[str], tmp_path: Path
) -> None:
    """The recorded secret may be one of its own; the policy that is taken for the node's is said, too."""
    words = [IMAGE, *config, "--root", str(root)]
    found = access(*words)
    assert (found["mustPull"], found["outcome"], found["rule"]) == (None, "unknown", "stranger")
    done = run_in_process("explain", *words, "-o", "wide")
    assert "cannot tell whether this pod may use the image on the node: the pod was not given" in done.stdout
    assert "the kubelet's default NeverVerifyPreloadedImages is used; set it with --policy" in done.stderr
    named = run_in_process("explain", *words, *plain_pod(tmp_path), "--policy", "AlwaysVerify", "-o", "wide")
    assert "set it with --policy" not in named.stderr
    assert "this pod must pull it to verify its access" in named.stdout


def test_a_stranger_must_pull_and_a_policy_can_change_that(
    root: Path, config: list[str], tmp_path: Path
) -> None:
    """By the image's id, or by what records say of its name."""
    options = [*config, "--root", str(root), *plain_pod(tmp_path)]
    for more in ([], ["--image-id", REF]):
        found = access(IMAGE, *options, *more)
        assert (found["mustPull"], found["rule"], found["imageRef"]) == (True, "stranger", REF)
    assert access(IMAGE, *options, "--policy", "NeverVerify")["mustPull"] is False
    allow = ["--policy", "NeverVerifyAllowlistedImages", "--allow", "reg.io/*"]
    assert access(IMAGE, *options, *allow)["mustPull"] is False
    preloaded = access("reg.io/other:v1", *options, "--image-id", "sha256:" + "b" * 64)
    assert (preloaded["mustPull"], preloaded["rule"]) == (False, "policy")


def test_a_planted_record_is_not_believed(root: Path, config: list[str]) -> None:
    """Readable by others, it may be anybody's: the image must be verified. Nor does it say which image is there."""
    plant(root, mode=0o666, ref=REF)
    found = access(IMAGE, *config, "--root", str(root), "--image-id", REF)
    assert (found["mustPull"], found["rule"]) == (True, "unreadable")
    done = run_in_process("explain", IMAGE, *config, "--root", str(root), "-o", "json")
    assert "access" not in json.loads(done.stdout)
    assert f"no record names {IMAGE!r}" in done.stderr
    assert "others may" in done.stderr or "other users can" in done.stderr


def test_without_records_it_is_an_error_and_without_the_options_nothing_is_said(
    config: list[str], tmp_path: Path
) -> None:
    """Exit code 3 for a folder without records; 2 for a list that no policy reads."""
    done = run_in_process("explain", IMAGE, *config, "--root", str(tmp_path / "none"))
    assert done.returncode == 3
    assert "/none: there is no such folder; expected the root of a kubelet" in done.stderr
    done = run_in_process("explain", IMAGE, *config, "-o", "json")
    assert "access" not in json.loads(done.stdout)
    folder_of(tmp_path)
    done = run_in_process("explain", IMAGE, *config, "--root", str(tmp_path), "--allow", "x/*")
    assert done.returncode == 2
    assert "takes no allowlist" in done.stderr


CRIO = '[[registry]]\nlocation = "reg.io"\n{more}[[registry.mirror]]\nlocation = "mirror.example/cache"\n'


def traps_of(folder: Path, *words: str, root: str = "") -> dict[str, dict[str, object]]:
    """The traps about mirrors by their kind; *root* is that of the machine."""
    env = {"KEYFERRY_HOST_ROOT": root} if root else {}
    words = ("explain", "reg.io/app", *plain_pod(folder), "-o", "json", *words)
    done = run_in_process(*words, cwd=None, **env)
    assert done.returncode == 0, done.stderr
    traps = json.loads(done.stdout)["traps"]
    return {trap["outcome"]: trap for trap in traps if trap["outcome"].startswith("mirror")}


@pytest.fixture
def two(tmp_path: Path) -> Node:
    """A node with a plugin for the registry and one for its mirror."""
    return Node(tmp_path).add("own", ["reg.io"]).add("other", ["mirror.example"])


def test_containerd_offers_the_registrys_credential_to_the_mirror(two: Node) -> None:
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    traps = traps_of(two.folder, *two.options(), "--hosts-dir", str(two.folder / CERTS))
    text = str(traps["mirror"]["text"])
    assert text.startswith(
        "containerd asks https://mirror.example, then https://reg.io (the registry itself) ("
    )
    assert "containerd offers them to each of these hosts that asks for one" in text
    facts = traps["mirror"]["facts"]
    assert isinstance(facts, dict)
    assert [each["credential"] for each in facts["endpoints"]] == ["offered", "offered"]
    assert "covers the mirror mirror.example, but" in str(traps["mirror-pattern"]["text"])
    assert not (two.bin_dir / "other.runs").exists()


def test_a_pattern_for_the_mirror_alone_is_the_likely_cause(tmp_path: Path) -> None:
    """The pattern for the image's own host is the cure."""
    node = Node(tmp_path).add("other", ["mirror.example"])
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    options = [*node.options(), "--hosts-dir", str(tmp_path / CERTS), *plain_pod(tmp_path)]
    document = json.loads(run_in_process("explain", "reg.io/team/app", *options, "-o", "json").stdout)
    assert document["cause"].startswith(
        "pattern 'mirror.example' of 'other' covers the mirror mirror.example"
    )
    (cure,) = document["cure"]
    assert "matchImages of provider 'other'" in cure["text"]
    assert cure["lines"] == ['- "reg.io"']
    text = run_in_process("explain", "reg.io/team/app", *options).stdout
    assert text.count("covers the mirror") == 1


def test_cri_o_keeps_it_from_the_mirror(two: Node) -> None:
    conf = write(two.folder, "registries.conf", CRIO.format(more=""))
    traps = traps_of(two.folder, *two.options(), "--registries-conf", conf)
    assert "CRI-O does not send them to another host" in str(traps["mirror"]["text"])
    assert set(traps) == {"mirror", "mirror-pattern"}


def test_a_mirror_without_tls_may_give_the_credential_away(two: Node) -> None:
    write(two.folder, CERTS / "_default" / "hosts.toml", '[host."http://10.0.0.1:5000"]\n')
    traps = traps_of(two.folder, *two.options(), "--hosts-dir", str(two.folder / CERTS))
    assert "it gets that of reg.io" in str(traps["mirror-insecure"]["text"])


@pytest.mark.parametrize(
    ("text", "trap", "said"),
    [
        (CRIO.format(more="blocked = true\n"), "mirror-blocked", "CRI-O does not pull it: "),
        ("[", "mirror-file", "may name a mirror, but it is not TOML"),
    ],
)
def test_what_stops_the_runtime_or_us_is_said(two: Node, text: str, trap: str, said: str) -> None:
    conf = write(two.folder, "registries.conf", text)
    traps = traps_of(two.folder, *two.options(), "--registries-conf", conf)
    assert set(traps) == {trap}
    assert said in str(traps[trap]["text"])


def test_without_a_credential_the_mirror_gets_none_either(tmp_path: Path) -> None:
    node = Node(tmp_path).add("own", ["else.io"])
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    words = ("explain", "reg.io/app", *plain_pod(tmp_path), *node.options())
    done = run_in_process(*words, "--hosts-dir", str(tmp_path / CERTS))
    assert "so the mirror gets none either" in " ".join(done.stdout.split())


@pytest.mark.parametrize(("pattern", "said"), [("else.io", True), ("reg.io", False)])
def test_a_login_of_the_runtimes_own_is_used_where_the_kubelet_has_none(
    tmp_path: Path, pattern: str, said: bool
) -> None:
    node = Node(tmp_path).add("own", [pattern])
    cri = '[plugins."io.containerd.grpc.v1.cri".registry.configs."reg.io".auth]'
    write(tmp_path, CONFIG, f'{cri}\nusername = "u"\npassword = "pass-word"\n')
    words = ("explain", "reg.io/app", *plain_pod(tmp_path), *node.options(), "--check-registry")
    done = run_in_process(*words, "--registry-timeout", "1", cwd=None, KEYFERRY_HOST_ROOT=str(tmp_path))
    text = "containerd then uses the login of its own for reg.io"
    assert (text in " ".join(done.stdout.split())) is said
    assert "pass-word" not in done.stdout + done.stderr


def test_this_machines_files_do_not_count_for_a_config_from_elsewhere(two: Node) -> None:
    """Without a kubelet here, nothing tells that this machine is the node."""
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    assert traps_of(two.folder, *two.options(), root=str(two.folder)) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")
@pytest.mark.parametrize(
    ("endpoint", "runtime"), [("containerd/containerd", "containerd"), ("crio/crio", "CRI-O")]
)
def test_the_runtime_of_the_running_kubelet_decides_which_files_count(
    two: Node, processes: Processes, endpoint: str, runtime: str
) -> None:
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    write(two.folder, REGISTRIES, CRIO.format(more=""))
    flags = [
        f"--image-credential-provider-config={two.config}",
        f"--image-credential-provider-bin-dir={two.bin_dir}",
        f"--container-runtime-endpoint=unix:///run/{endpoint}.sock",
    ]
    with processes.kubelet(*flags, env={"PATH": "/usr/bin:/bin"}):
        traps = traps_of(two.folder, root=str(two.folder))
    facts = traps["mirror"]["facts"]
    assert isinstance(facts, dict)
    assert facts["runtime"] == runtime
