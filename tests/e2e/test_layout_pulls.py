"""Layouts as others see them: skopeo, a pull that was killed, and several pulls at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from keyferry import ImagePullError
from support.fake_registry import credential
from support.images import DOCKER, BuiltImage, build, build_index, digest_of, noise, push
from support.layouts import pull_to_layout
from support.parts import need
from support.plugins import wait_until
from support.registry import Registry, basic, running

USER, PASSWORD = "alice", "s3cret-word"
PATIENCE_SECONDS = 60.0
ARM = build(b"d", architecture="arm64", variant="v8")
# Pulls the image and says so; the password comes from the environment.
PULL = """\
import os, sys
from keyferry import Credential, PullOptions, Source, SourceKind, pull
source = Source(kind=SourceKind.PROVIDER, name="one")
user, word = os.environ["LOGIN_USER"], os.environ["LOGIN_WORD"]
login = Credential(username=user, password=word, source=source, key="key")
print(pull(sys.argv[1], PullOptions(credentials=[login], pull_policy="Always"), to=sys.argv[2]).manifest_digest)
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        yield server


def put(registry: Registry, repository: str, image: BuiltImage) -> str:
    push(registry, repository, "v1", image, basic(USER, PASSWORD))
    return f"{registry.host}/{repository}:v1"


def start(image: str, folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "LOGIN_USER": USER, "LOGIN_WORD": PASSWORD}
    words = [sys.executable, "-c", PULL, image, str(folder)]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return out.strip()


def skopeo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [need("skopeo"), "--insecure-policy", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def check_whole(folder: Path) -> Mapping[str, str]:
    """Every blob is what its name says, every image in the index is complete; gives the images by name."""
    index = (
        json.loads((folder / "index.json").read_text())
        if (folder / "index.json").exists()
        else {"manifests": []}
    )
    blobs = folder / "blobs/sha256"
    held = {f"sha256:{each.name}": each.read_bytes() for each in blobs.iterdir()} if blobs.exists() else {}
    for name, data in held.items():
        assert digest_of(data) == name
    for entry in index["manifests"]:
        manifest = json.loads(held[entry["digest"]])
        assert {manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])} <= set(held)
    return {
        each["annotations"]["org.opencontainers.image.ref.name"]: each["digest"]
        for each in index["manifests"]
    }


@pytest.mark.parametrize(
    ("name", "image", "platform", "tag"),
    [
        ("oci", build(b"a", noise(50_000)), "linux/amd64", ":v1"),
        # skopeo finds manifests of docker's types in a layout of one image, and not by name.
        ("docker", build(b"b", types=DOCKER), "linux/amd64", ""),
        ("many", build_index(build(b"c"), ARM, attested=True), "linux/arm64", ":v1"),
    ],
)
def test_skopeo_takes_the_layout_and_finds_the_same_digests(
    registry: Registry, tmp_path: Path, name: str, image: BuiltImage, platform: str, tag: str
) -> None:
    """It reads every blob, and pushes the image on under the digest it had."""
    reference = put(registry, f"team/{name}", image)
    pulled = pull_to_layout(reference, tmp_path / "layout", [credential(USER, PASSWORD)], platform=platform)
    inspected = skopeo(tmp_path, "inspect", f"oci:{tmp_path}/layout{tag}")
    assert inspected.returncode == 0, inspected.stderr
    assert json.loads(inspected.stdout)["Digest"] == pulled.manifest_digest
    copied = skopeo(
        tmp_path, "copy", "--preserve-digests", f"oci:{tmp_path}/layout{tag}", f"dir:{tmp_path}/dir"
    )
    assert copied.returncode == 0, copied.stderr
    manifest = (tmp_path / "dir/manifest.json").read_bytes()
    assert digest_of(manifest) == pulled.manifest_digest
    pushed = skopeo(
        tmp_path, "copy", "--preserve-digests", "--dest-tls-verify=false", f"--dest-creds={USER}:{PASSWORD}",
        f"oci:{tmp_path}/layout{tag}", f"docker://{registry.host}/copies/{name}:v1",
    )  # fmt: skip
    assert pushed.returncode == 0, pushed.stderr
    again = pull_to_layout(
        f"{registry.host}/copies/{name}:v1", tmp_path / "again", [credential(USER, PASSWORD)]
    )
    assert again.digest == pulled.manifest_digest


def test_a_full_name_in_the_layout_is_one_that_skopeo_takes(registry: Registry, tmp_path: Path) -> None:
    """The second image of the same tag is called by its full name."""
    for repository in ("one/app", "two/app"):
        image = put(registry, repository, build(repository.encode()))
        pulled = pull_to_layout(image, tmp_path / "layout", [credential(USER, PASSWORD)])
    assert pulled.name == image
    inspected = skopeo(tmp_path, "inspect", f"oci:{tmp_path}/layout:{pulled.name}")
    assert json.loads(inspected.stdout)["Digest"] == pulled.manifest_digest


def test_a_pull_that_is_killed_leaves_no_half_image_and_is_taken_up(
    registry: Registry, tmp_path: Path
) -> None:
    """Killed after more and more has come; what is there is whole each time, and the last pull needs only the rest."""
    image = build(*(noise(12_000_000) for _ in range(4)))
    reference, folder = put(registry, "team/big", image), tmp_path / "layout"
    killed = 0
    for number in range(1, 7):
        killed += kill_after(start(reference, folder), folder, number * 5_000_000)
        assert check_whole(folder) in ({}, {"v1": image.digest})
    assert killed
    before = len(registry.log)
    assert finish(start(reference, folder)) == image.digest
    assert check_whole(folder) == {"v1": image.digest}
    assert not [each for each in (folder / ".keyferry").iterdir() if each.name.startswith("sha256-")]
    assert sent_bytes(registry.log[before:]) < sum(map(len, image.blobs.values()))


def kill_after(process: subprocess.Popen[str], folder: Path, size: int) -> bool:
    """Kill a pull once so much is there; False if it was done before that."""
    wait_until(lambda: process.poll() is not None or held_bytes(folder) > size, "some of the image")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode == -signal.SIGKILL


def held_bytes(folder: Path) -> int:
    places = [*(folder / ".keyferry").glob("sha256-*"), *(folder / "blobs/sha256").glob("*")]
    sizes = []
    for place in places:
        try:
            sizes.append(place.stat().st_size)
        except FileNotFoundError:
            continue  # it has become a blob
    return sum(sizes)


def sent_bytes(log: str) -> int:
    blobs = [line for line in answers(log) if "/blobs/" in line["http.request.uri"]]
    return sum(line.get("http.response.written", 0) for line in blobs)


def answers(log: str) -> list[dict[str, Any]]:
    """What a registry says it has answered."""
    return [json.loads(line) for line in log.splitlines() if '"response completed"' in line]


def test_pulls_at_once_into_one_layout_do_not_get_into_each_others_way(
    registry: Registry, tmp_path: Path
) -> None:
    """Each image is there at the end, and a layer that they share came once."""
    shared = noise(8_000_000)
    images = [build(shared, f"own {number}".encode()) for number in range(3)]
    names = [put(registry, f"shared/app{number}", image) for number, image in enumerate(images)]
    before, folder = len(registry.log), tmp_path / "layout"
    processes = [start(name, folder) for name in (*names, names[0])]
    assert [finish(process) for process in processes] == [
        *(image.digest for image in images),
        images[0].digest,
    ]
    assert sorted(check_whole(folder).values()) == sorted(image.digest for image in images)
    layer = list(images[0].blobs)[1]
    lines = [
        json.loads(line) for line in registry.log[before:].splitlines() if '"response completed"' in line
    ]
    fetches = [
        line
        for line in lines
        if line["http.request.uri"].endswith(layer) and line["http.response.status"] == 200
    ]
    assert len(fetches) == 1


def test_a_password_that_is_changed_between_two_pulls_is_felt_at_once(
    registry: Registry, tmp_path: Path
) -> None:

    image = put(registry, "team/rotated", build(b"rotated"))
    old, new = credential(USER, PASSWORD), credential(USER, "another-word")
    pull_to_layout(image, tmp_path / "first", [old])
    try:
        registry.set_users({USER: "another-word"})
        with pytest.raises(ImagePullError):
            pull_to_layout(image, tmp_path / "second", [old])
        assert pull_to_layout(image, tmp_path / "second", [old, new]).used == new
    finally:
        registry.set_users({USER: PASSWORD})
