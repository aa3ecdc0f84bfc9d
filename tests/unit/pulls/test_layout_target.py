"""A folder as a target of pulls: what it has, and the progress of what it gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, RegistryError
from keyferry.images.reference import parse_image
from keyferry.pulls.layout import Layout, draft_name
from keyferry.pulls.layout_target import LayoutTarget, Meter
from keyferry.pulls.manifest import ImageManifest, parse_platform, read_manifest
from keyferry.pulls.request import Progress
from support.fake_cloud import serving
from support.fake_registry import REPOSITORY, TAG, FakeRegistry
from support.images import BuiltImage, build, noise

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


MANIFEST = build(noise(3000), noise(5000))
SIZES = {name: len(blob) for name, blob in MANIFEST.blobs.items()}
TOTAL = sum(SIZES.values())


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path))
    found.prepare()
    return found


def manifest() -> ImageManifest:
    found = read_manifest(MANIFEST.manifest, MANIFEST.media_type, MANIFEST.digest)
    assert isinstance(found, ImageManifest)
    return found


def test_an_empty_folder_begins_at_nothing(layout: Layout) -> None:
    told: list[Progress] = []
    meter = Meter(manifest(), layout, told.append)
    assert told == [Progress(done=0, total=TOTAL, layers_done=0, layers=2, found=0)]
    config, first, second = manifest().blobs
    meter.set(config, config.size)
    meter.set(first, first.size - 1)
    assert told[-1] == Progress(
        done=config.size + first.size - 1, total=TOTAL, layers_done=0, layers=2, found=0
    )
    meter.set(first, first.size)
    meter.set(first, first.size)
    meter.set(second, second.size)
    assert told[-1] == Progress(done=TOTAL, total=TOTAL, layers_done=2, layers=2, found=0)
    assert len(told) == 5  # nothing is told twice


def test_whole_layers_and_parts_that_are_there_count_from_the_start(layout: Layout) -> None:
    _, first, second = manifest().blobs
    layout.put(MANIFEST.blobs[first.digest], first.digest)
    draft = Path(layout.folder, ".keyferry", draft_name(second.digest))
    draft.write_bytes(MANIFEST.blobs[second.digest][:1000])
    told: list[Progress] = []
    meter = Meter(manifest(), layout, told.append)
    assert told == [
        Progress(done=first.size + 1000, total=TOTAL, layers_done=1, layers=2, found=first.size + 1000)
    ]
    meter.set(first, first.size)
    assert len(told) == 1
    # The layer was damaged, and is fetched again.
    meter.set(first, 0)
    assert told[-1] == Progress(done=1000, total=TOTAL, layers_done=0, layers=2, found=first.size + 1000)


def test_a_part_that_is_too_long_is_worth_nothing(layout: Layout) -> None:
    _, first, _ = manifest().blobs
    Path(layout.folder, ".keyferry", draft_name(first.digest)).write_bytes(bytes(first.size + 1))
    assert layout.bytes_of(first) == 0


def test_nobody_has_to_listen(layout: Layout) -> None:
    Meter(manifest(), layout, None).set(manifest().config, 5)
    assert json.loads(MANIFEST.manifest)
