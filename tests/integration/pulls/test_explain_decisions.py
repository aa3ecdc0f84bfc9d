"""``keyferry explain`` says whether a pod may use an image that is there, and writes nothing for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry.images.keyring import credential_hash
from support.commands import Node, plain_pod, run_keyferry
from support.pulling import write_secret
from support.records import folder_of, open_quickly, plant, secret, with_secrets

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
    done = run_keyferry("explain", *words, "-o", "json")
    found = json.loads(done.stdout)["access"]
    assert isinstance(found, dict)
    return found


def test_it_says_by_which_record_policy_and_rule(root: Path, config: list[str], tmp_path: Path) -> None:
    """A secret with another name and the same login stands for the recorded one; nothing is written down."""
    before = state_of(root)
    own = write_secret(tmp_path, "mine", "reg.io", "user", "kf-marked-word")
    done = run_keyferry("explain", IMAGE, *config, "--root", str(root), "--secret", own, "-o", "wide")
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
    done = run_keyferry("explain", *words, "-o", "wide")
    assert "cannot tell whether this pod may use the image on the node: the pod was not given" in done.stdout
    assert "the kubelet's default NeverVerifyPreloadedImages is used; set it with --policy" in done.stderr
    named = run_keyferry("explain", *words, *plain_pod(tmp_path), "--policy", "AlwaysVerify", "-o", "wide")
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
    done = run_keyferry("explain", IMAGE, *config, "--root", str(root), "-o", "json")
    assert "access" not in json.loads(done.stdout)
    assert f"no record names {IMAGE!r}" in done.stderr
    assert "others may" in done.stderr or "other users can" in done.stderr


def test_without_records_it_is_an_error_and_without_the_options_nothing_is_said(
    config: list[str], tmp_path: Path
) -> None:
    """Exit code 3 for a folder without records; 2 for a list that no policy reads."""
    done = run_keyferry("explain", IMAGE, *config, "--root", str(tmp_path / "none"))
    assert done.returncode == 3
    assert "/none: there is no such folder; expected the root of a kubelet" in done.stderr
    done = run_keyferry("explain", IMAGE, *config, "-o", "json")
    assert "access" not in json.loads(done.stdout)
    folder_of(tmp_path)
    done = run_keyferry("explain", IMAGE, *config, "--root", str(tmp_path), "--allow", "x/*")
    assert done.returncode == 2
    assert "takes no allowlist" in done.stderr
