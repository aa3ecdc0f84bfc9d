"""What a folder in the OCI layout has, as a puller sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, RegistryError
from keyferry.images.reference import parse_image
from keyferry.pulls.layout_target import LayoutTarget
from keyferry.pulls.manifest import parse_platform
from support.fake_cloud import serving
from support.fake_registry import REPOSITORY, TAG, FakeRegistry
from support.images import BuiltImage, build

NAME = "reg.io/team/app:v1"
IMAGE = build(b"one", b"two")


def write_layout(
    folder: Path, image: BuiltImage = IMAGE, annotations: Mapping[str, str] | None = None
) -> Path:
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for name, data in {**image.blobs, image.digest: image.manifest}.items():
        (blobs / name.removeprefix("sha256:")).write_bytes(data)
    names = annotations or {"io.containerd.image.name": NAME}
    entry = {
        "mediaType": image.media_type,
        "digest": image.digest,
        "size": len(image.manifest),
        "platform": dict(image.platform),
        "annotations": names,
    }
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return folder


def config_of(image: BuiltImage) -> str:
    return str(json.loads(image.manifest)["config"]["digest"])


def test_an_image_is_found_by_name_digest_and_id(tmp_path: Path) -> None:
    """Under the id that container runtimes have for it."""
    target = LayoutTarget(write_layout(tmp_path))
    for name in (NAME, f"reg.io/team/app@{IMAGE.digest}", f"{NAME}@{IMAGE.digest}", config_of(IMAGE)):
        found = target.find_image(name)
        assert found is not None, name
        assert found.id == config_of(IMAGE)
    (found,) = target.list_images()
    assert (found.tags, found.digests) == ((NAME,), (f"reg.io/team/app@{IMAGE.digest}",))
    for name in ("reg.io/team/app:v2", "other.io/team/app:v1", "docker.io/library/v1:latest", "not an image"):
        assert target.find_image(name) is None


def test_where_there_is_no_layout_there_is_no_image(tmp_path: Path) -> None:
    """It is made by the first pull."""
    assert LayoutTarget(tmp_path / "none").find_image(NAME) is None


@pytest.mark.parametrize("lost", ["config", "layer", "manifest", "short", "changed"])
def test_an_image_that_is_not_whole_is_not_there(tmp_path: Path, lost: str) -> None:
    """So that it is pulled again."""
    write_layout(tmp_path)
    digests = {"config": config_of(IMAGE), "manifest": IMAGE.digest, "changed": IMAGE.digest}
    path = tmp_path / "blobs/sha256" / digests.get(lost, list(IMAGE.blobs)[-1]).removeprefix("sha256:")
    if lost == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif lost == "changed":
        path.write_bytes(path.read_bytes() + b" ")
    else:
        path.unlink()
    assert LayoutTarget(tmp_path).find_image(NAME) is None


def test_for_another_platform_it_is_not_there(tmp_path: Path) -> None:
    """What was pulled for one machine is no use to another."""
    write_layout(tmp_path)
    for platform, expected in (("linux/amd64", True), ("linux/arm64", False)):
        target = LayoutTarget(tmp_path, platform=parse_platform(platform))
        assert (target.find_image(NAME) is not None) is expected


@pytest.mark.parametrize("digest", ["sha256:../../../../etc/passwd", "sha256:" + "g" * 64, "", "/etc/passwd"])
def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path, digest: str) -> None:
    """Only a digest becomes part of a path."""
    write_layout(tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    index["manifests"][0]["digest"] = digest
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert LayoutTarget(tmp_path).list_images() == ()


def test_a_tag_alone_names_no_image(tmp_path: Path) -> None:
    """Layouts of other tools say "v1" and not of which registry; a full name in its place counts."""
    write_layout(tmp_path, annotations={"org.opencontainers.image.ref.name": "v1"})
    assert LayoutTarget(tmp_path).list_images() == ()
    write_layout(tmp_path, annotations={"org.opencontainers.image.ref.name": NAME})
    assert LayoutTarget(tmp_path).find_image(NAME) is not None


def test_an_index_that_is_none_is_an_error(tmp_path: Path) -> None:
    """Rather than an empty folder."""
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(EnvironmentProblem, match="is not the index of an OCI layout"):
        LayoutTarget(tmp_path).find_image(NAME)


def test_a_closed_target_pulls_no_more(tmp_path: Path) -> None:
    """Whoever closes it ends the pull, not only the attempt with one of several credentials."""
    with serving(FakeRegistry(IMAGE)) as server:
        target = LayoutTarget(tmp_path)
        target.close()
        with pytest.raises(RegistryError, match="cancelled"):
            target.pull_image(parse_image(f"127.0.0.1:{server.port}/{REPOSITORY}:{TAG}"), None)
    assert not [request for request in server.received if "manifests" in request.path]
