"""``keyferry records`` as a user runs it, on folders as kubelets have them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.images.keyring import credential_hash
from support.commands import run_in_process
from support.records import IMAGE, REF, account, folder_of, open_quickly, plant, secret, with_secrets

OTHER_REF = "sha256:" + "b" * 64
HASH = credential_hash("user", "hunter2-hunter2")
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: ns}
spec:
  imagePullSecrets: [{name: s1}]
  containers: [{name: app, image: "reg.example/team/app:v1"}, {name: side, image: "preloaded.example/x:1"}]
---
apiVersion: v1
kind: Secret
type: kubernetes.io/dockerconfigjson
metadata: {name: s1, namespace: ns, uid: another-uid}
stringData: {.dockerconfigjson: '{"auths":{"reg.example":{"username":"user","password":"hunter2-hunter2"}}}'}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kubelet's root: one image of a secret, one of an account under two names, one pull under way."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret("s1", HASH)))
    records.record_pulled(
        "busybox:1",
        OTHER_REF,
        ImagePullCredentials(kubernetes_secrets=(), kubernetes_service_accounts=(account(),)),
    )
    records.record_pulled("reg.example/box:1", OTHER_REF, None)
    records.record_intent("reg.example/slow:v1")
    return tmp_path


def images_file(folder: Path, *ids: str) -> str:
    path = folder / "images.json"
    images = [{"id": each, "repoTags": ["reg.example/team/app:v1"], "repoDigests": []} for each in ids]
    path.write_text(json.dumps({"images": images}))
    return str(path)


def test_list_tells_who_and_hides_hashes(root: Path) -> None:
    """Every name, who may use it, and pulls under way; a hash only when it is asked for."""
    done = run_in_process("records", "list", "--root", str(root))
    assert done.returncode == 0, done.stderr
    assert "reg.example/team/app" in done.stdout
    assert "1 service account" in done.stdout
    assert "every pod of the node" in done.stdout
    assert "unfinished pull" in done.stdout
    for output in ("table", "json", "yaml"):
        shown = run_in_process("records", "list", "--root", str(root), "-o", output)
        assert HASH not in shown.stdout + shown.stderr
    revealed = run_in_process("records", "list", "--root", str(root), "-o", "json", "--reveal")
    assert HASH in revealed.stdout


def test_list_has_stable_fields(root: Path) -> None:
    """Programs find what they need under names that stay."""
    document = json.loads(run_in_process("records", "list", "--root", str(root), "-o", "json").stdout)
    assert (document["apiVersion"], document["kind"]) == ("keyferry.dev/v1alpha1", "PullRecordList")
    by_ref = {each["imageRef"]: each for each in document["records"]}
    (name,) = by_ref[REF]["names"]
    assert name["secrets"] == [
        {"namespace": "ns", "name": "s1", "uid": "uid-s1", "credentialHash": f"{HASH[:8]}..."}
    ]
    assert document["underWay"] == ["reg.example/slow:v1"]


def test_show_gives_the_file(root: Path) -> None:
    """All about one image, by name or by the runtime's id."""
    for image in (IMAGE, REF):
        done = run_in_process("records", "show", image, "--root", str(root))
        assert done.returncode == 0
        assert "ns/s1" in done.stdout
        assert str(folder_of(root)) in done.stdout
    missing = run_in_process("records", "show", "no.example/x", "--root", str(root))
    assert (missing.returncode, missing.stdout) == (1, "")


def test_who_knows_one_spelling(root: Path) -> None:
    """Another spelling of a name is shown, and does not count."""
    assert run_in_process("records", "who", "busybox", "--root", str(root)).returncode == 0
    done = run_in_process("records", "who", "docker.io/library/busybox", "--root", str(root))
    assert done.returncode == 1
    assert "another spelling" in done.stdout
    assert "the image must be pulled: " in done.stdout
    document = run_in_process("records", "who", IMAGE, "--root", str(root), "-o", "json")
    answer = json.loads(document.stdout)
    stranger = answer["podWithoutCredentials"]
    assert (stranger["mustPull"], stranger["outcome"], stranger["imageRef"]) == (True, "pull", REF)
    assert answer["access"][0]["secrets"][0]["name"] == "s1"


def test_plan_tells_what_a_policy_changes(root: Path, tmp_path: Path) -> None:
    """A pod with the recorded credential stays; one with an image nobody pulled must verify."""
    (tmp_path / "pod.yaml").write_text(POD)
    words = ("records", "plan", "--policy", "AlwaysVerify", "-f", str(tmp_path / "pod.yaml"))
    listed = tmp_path / "both.json"
    names = {REF: IMAGE, "sha256:preloaded": "preloaded.example/x:1"}
    listed.write_text(
        json.dumps({"images": [{"id": ref, "repoTags": [name]} for ref, name in names.items()]})
    )
    done = run_in_process(*words, "--root", str(root), "--images", str(listed), "-o", "json")
    assert done.returncode == 1
    effects = {each["image"]: each["effect"] for each in json.loads(done.stdout)["uses"]}
    assert effects == {IMAGE: "same", "preloaded.example/x:1": "verified"}
    assert "hunter2" not in done.stdout + done.stderr
    unknown = run_in_process(*words, "--root", str(root))
    assert unknown.returncode == 6
    expected = "whether 'preloaded.example/x:1' is among them; add --images FILE or --cri SOCKET"
    assert expected in unknown.stderr
    absent = run_in_process(*words, "--root", str(root), "--images", images_file(tmp_path, REF))
    assert absent.returncode == 0, absent.stdout
    assert "must pull" not in absent.stdout


def test_plan_takes_every_pod_of_a_file(root: Path, tmp_path: Path) -> None:
    """As kubectl prints those of a namespace; each pod has its own secrets."""

    def pod(name: str, *secrets: str) -> dict[str, object]:
        spec = {
            "imagePullSecrets": [{"name": each} for each in secrets],
            "containers": [{"name": "app", "image": IMAGE}],
        }
        return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}

    items = [pod("one", "s1"), pod("two")]
    items.append({"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ns"}})
    path = tmp_path / "pods.yaml"
    pods = json.dumps({"kind": "List", "items": items})
    path.write_text(f"{pods}\n---{POD.partition('---')[2]}")
    words = ("records", "plan", "--policy", "AlwaysVerify", "-f", str(path), "--root", str(root))
    done = run_in_process(*words, "-o", "json")
    uses = {each["pod"]: each["now"]["rule"] for each in json.loads(done.stdout)["uses"]}
    assert uses == {"ns/one": "same-credential", "ns/two": "stranger"}
    path.write_text(f"---{POD.partition('---')[2]}")
    none = run_in_process(*words)
    assert (none.returncode, "found no pod" in none.stderr) == (3, True)


@pytest.mark.parametrize(
    ("image", "option"),
    [
        pytest.param(IMAGE, "add --secret FILE", id="a secret"),
        pytest.param("busybox:1", "add -f FILE with the ServiceAccount after the Pod", id="an account"),
    ],
)
def test_plan_does_not_take_what_was_not_given_for_what_a_pod_lacks(
    root: Path, tmp_path: Path, image: str, option: str
) -> None:
    """The kubelet would use the image, if that is what it was pulled with: neither 'pull' nor a change is sure."""
    recorded = account()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": recorded.namespace},
        "spec": {
            "serviceAccountName": recorded.name,
            "imagePullSecrets": [{"name": "s1"}],
            "containers": [{"name": "app", "image": image}],
        },
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    words = ("records", "plan", "-f", str(tmp_path / "pod.json"), "--root", str(root))
    same = run_in_process(*words, "--policy", "AlwaysVerify")
    assert same.returncode == 0, same.stdout
    assert same.stdout.splitlines()[1].split()[2:4] == ["unknown", "unknown"]
    assert option in same.stderr
    freed = run_in_process(*words, "--policy", "NeverVerify", "-o", "json")
    assert freed.returncode == 6
    (use,) = json.loads(freed.stdout)["uses"]
    assert use["now"]["imageRef"] == use["then"]["imageRef"] == use["imageRef"]
    assert (use["effect"], use["now"]["outcome"], use["then"]["outcome"]) == ("unknown", "unknown", "use")
    assert (use["now"]["mustPull"], use["then"]["mustPull"]) == (None, False)
    shown = run_in_process(*words, "--policy", "NeverVerify")
    assert shown.stdout.rstrip().endswith(use["missing"][-1]["text"]), "why nobody can tell"
    assert "set it with --from-policy" in freed.stderr
    named = run_in_process(*words, "--policy", "NeverVerify", "--from-policy", "NeverVerify")
    assert (named.returncode, named.stderr) == (0, "")


def test_plan_finds_an_account_in_a_file_of_its_own(root: Path, tmp_path: Path) -> None:
    """As its help says; the image it was pulled for is used."""
    recorded = account()
    metadata = {"name": recorded.name, "namespace": recorded.namespace, "uid": recorded.uid}
    spec = {"serviceAccountName": recorded.name, "containers": [{"name": "app", "image": "busybox:1"}]}
    documents = {
        "pod": {"kind": "Pod", "metadata": {"name": "web", "namespace": recorded.namespace}, "spec": spec},
        "account": {"kind": "ServiceAccount", "metadata": metadata},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", **document}))
    files = ("-f", str(tmp_path / "pod.json"), "--secret", str(tmp_path / "account.json"))
    done = run_in_process(
        "records", "plan", "--policy", "AlwaysVerify", *files, "--root", str(root), "-o", "json"
    )
    (use,) = json.loads(done.stdout)["uses"]
    assert (use["then"]["outcome"], use["then"]["rule"]) == ("use", "same-account")


def test_plan_without_pods_looks_at_all_names(root: Path) -> None:
    """NeverVerify frees what was protected; an allowlist frees what it covers."""
    done = run_in_process("records", "plan", "--policy", "NeverVerify", "--root", str(root))
    assert done.returncode == 1
    assert done.stdout.count("need not pull") == 2
    words = ("--policy", "NeverVerifyAllowlistedImages", "--allow", "reg.example/*")
    listed = run_in_process("records", "plan", *words, "--root", str(root))
    assert listed.stdout.count("need not pull") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("plan", "--policy", "Sometimes"),
        ("plan", "--policy", "AlwaysVerify", "--allow", "x"),
        ("plan", "--policy", "NeverVerifyAllowlistedImages", "--allow", "*"),
        ("prune",),
        ("who",),
        ("vanish",),
    ],
)
def test_wrong_usage_is_exit_code_2(root: Path, words: tuple[str, ...]) -> None:
    """What cannot be meant is said in one line."""
    done = run_in_process("records", *words, *(("--root", str(root)) if words[0] != "vanish" else ()))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_prune_shows_before_it_removes(root: Path, tmp_path: Path) -> None:
    """Without --yes nothing goes; with it the old records of absent images do, and no others."""
    listed = images_file(tmp_path, REF)
    later = time.time() + 5
    os.utime(listed, (later, later))
    words = ("records", "prune", "--root", str(root), "--images", listed)
    dry = run_in_process(*words)
    assert dry.returncode == 1
    assert OTHER_REF[:19] in dry.stdout
    assert "would be removed" in dry.stderr
    assert len(list(folder_of(root).iterdir())) == 2
    done = run_in_process(*words, "--yes")
    assert done.returncode == 0, done.stderr
    assert [each.name for each in folder_of(root).iterdir()] == [plant(root).name]
    assert run_in_process(*words).returncode == 0


def test_prune_spares_what_is_younger_than_the_list(root: Path, tmp_path: Path) -> None:
    """A record that changed after the list was made is of a pull the list does not know."""
    listed = images_file(tmp_path, REF)
    os.utime(listed, (1_700_000_000, 1_700_000_000))
    assert run_in_process("records", "prune", "--root", str(root), "--images", listed).returncode == 0


def test_prune_refuses_an_empty_or_odd_list(root: Path, tmp_path: Path) -> None:
    """A list that went wrong does not cost every record."""
    empty = run_in_process(
        "records", "prune", "--root", str(root), "--images", images_file(tmp_path), "--yes"
    )
    assert empty.returncode == 3
    (tmp_path / "odd").write_text('{"items": []}')
    odd = run_in_process("records", "prune", "--root", str(root), "--images", str(tmp_path / "odd"), "--yes")
    assert odd.returncode == 3
    assert "crictl images -o json" in odd.stderr
    assert len(list(folder_of(root).iterdir())) == 2


def test_a_planted_record_is_reported(root: Path) -> None:
    """What is not believed is not listed, is told on standard error, and makes the exit code 1."""
    plant(root, ref="sha256:planted", mode=0o666)
    done = run_in_process("records", "list", "--root", str(root))
    assert done.returncode == 1
    assert "other users can write it (mode 0666)" in done.stderr
    assert "sha256:planted" not in done.stdout


def test_looking_leaves_no_trace(root: Path) -> None:
    """Reading commands change no file and make none."""
    (root / "image_manager" / "keyferry.lock").unlink()
    before = sorted((str(p), p.stat().st_mtime_ns) for p in root.rglob("*"))
    for words in (("list",), ("show", IMAGE), ("who", IMAGE), ("plan", "--policy", "AlwaysVerify")):
        run_in_process("records", *words, "--root", str(root))
    assert sorted((str(p), p.stat().st_mtime_ns) for p in root.rglob("*")) == before


def test_lint_of_a_records_folder_finds_everything(root: Path) -> None:
    """Each problem with its file and code, and no hash among them."""
    assert run_in_process("lint", str(root / "image_manager")).returncode == 0
    plant(root, b'{"kind":', ref="cut")
    plant(root, ref="open", mode=0o644)
    plant(root, ref="odd").rename(folder_of(root) / "sha256-odd")
    (folder_of(root) / "readme").write_text("x")
    done = run_in_process("lint", str(root / "image_manager"), "-o", "json")
    assert done.returncode == 1
    codes = {each["code"] for each in json.loads(done.stdout)["findings"]}
    assert codes == {"KF401", "KF410", "KF415", "KF421"}
    assert HASH not in done.stdout


def test_a_root_that_is_given_is_not_asked_for(tmp_path: Path) -> None:
    """A folder that does not exist is told from one without records."""
    done = run_in_process("records", "list", "--root", str(tmp_path / "nope"))
    assert done.returncode == 3
    assert f"{tmp_path / 'nope'}: there is no such folder; expected the root of a kubelet" in done.stderr
    done = run_in_process("records", "list", "--root", str(tmp_path))
    assert done.returncode == 3
    assert (
        f"{tmp_path}/image_manager: there are no pull records; expected the root of a kubelet" in done.stderr
    )


def test_an_image_without_a_record_may_not_be_on_the_node(root: Path) -> None:
    """What a policy says of preloaded images is said of an image that is there alone."""
    done = run_in_process("records", "who", "nowhere.example/app", "--root", str(root))
    assert done.returncode == 1
    assert "  cannot tell whether the image is on the node; look it up with" in done.stdout
    assert "NeverVerifyPreloadedImages, if the image is on the node:\n" in done.stdout
