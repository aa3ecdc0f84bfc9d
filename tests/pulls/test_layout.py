"""OCI layouts: what is written, and what is read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from keyferry import Platform, Progress, Puller, open_target
from keyferry.errors import EnvironmentProblem, ImagePullError
from keyferry.pulls.manifest import (
    ContentError,
    ImageIndex,
    ImageManifest,
    choose_manifest,
    hasher,
    parse_platform,
    read_config_platform,
    read_manifest,
    this_machine,
)
from support.fake_cloud import FakeServer, serving
from support.fake_registry import TAG, FakeRegistry, image_of
from support.images import DOCKER, OCI, BuiltImage, build, build_index, digest_of, noise
from support.layouts import pull_to_layout
from support.locks import replaced_while_waited_for

IMAGE = build(noise(3000), noise(5000))
CONFIG, FIRST, SECOND = IMAGE.blobs
TOTAL = sum(map(len, IMAGE.blobs.values()))


@pytest.fixture
def registry() -> Iterator[FakeServer]:
    with serving(FakeRegistry(IMAGE)) as server:
        yield server


def index_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "index.json").read_text())
    assert isinstance(found, dict)
    return found


def names(folder: Path) -> list[str]:
    return [
        each["annotations"]["org.opencontainers.image.ref.name"] for each in index_of(folder)["manifests"]
    ]


def blob_in(folder: Path, digest: str) -> Path:
    return folder / "blobs/sha256" / digest.removeprefix("sha256:")


def test_a_new_folder_becomes_a_layout_with_the_image(registry: FakeServer, tmp_path: Path) -> None:
    """It has its tag as name, and its full name beside it."""
    folder = tmp_path / "deep" / "new"
    pull_to_layout(image_of(registry), folder)
    assert json.loads((folder / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = index_of(folder)["manifests"]
    assert entry["digest"] == IMAGE.digest
    assert entry["platform"] == {"os": "linux", "architecture": "amd64"}
    assert entry["annotations"]["io.containerd.image.name"] == image_of(registry)
    assert names(folder) == [TAG]


def test_a_folder_with_something_else_in_it_is_left_alone(registry: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(EnvironmentProblem, match="not empty"):
        pull_to_layout(image_of(registry), tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]
    with pytest.raises(EnvironmentProblem, match=r"thesis\.txt: "):
        pull_to_layout(image_of(registry), tmp_path / "thesis.txt")


@pytest.mark.parametrize("content", ['{"imageLayoutVersion":"2.0.0"}', "{", "[]", ""])
def test_a_layout_of_another_version_is_left_alone(
    registry: FakeServer, tmp_path: Path, content: str
) -> None:
    (tmp_path / "oci-layout").write_text(content)
    with pytest.raises(EnvironmentProblem, match=r"version 1\.0\.0"):
        pull_to_layout(image_of(registry), tmp_path)


def test_names_in_the_index_are_those_of_one_image_each(registry: FakeServer, tmp_path: Path) -> None:
    """A newer image takes the old one's place; another one of the same tag is called by its full name."""
    with serving(FakeRegistry(build(b"another"))) as other:
        by_digest = f"{image_of(registry).removesuffix(f':{TAG}')}@{IMAGE.digest}"
        for image in (image_of(registry), image_of(registry), image_of(other), by_digest):
            pull_to_layout(image, tmp_path)
        assert names(tmp_path) == [TAG, image_of(other), by_digest]


def test_what_others_wrote_into_the_index_stays(registry: FakeServer, tmp_path: Path) -> None:
    theirs = [{"digest": "sha256:1", "annotations": {"a": "b"}}, {}]
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (tmp_path / "index.json").write_text(json.dumps({"schemaVersion": 2, "x": 1, "manifests": theirs}))
    pull_to_layout(image_of(registry), tmp_path)
    assert index_of(tmp_path)["x"] == 1
    assert index_of(tmp_path)["manifests"][:2] == theirs


@pytest.mark.parametrize("content", ["", "[]", '{"manifests":{}}', '{"manifests":[1]}'])
def test_a_broken_index_is_not_written_over(registry: FakeServer, tmp_path: Path, content: str) -> None:
    pull_to_layout(image_of(registry), tmp_path)
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(EnvironmentProblem, match="nothing was changed"):
        pull_to_layout(image_of(registry), tmp_path)
    assert (tmp_path / "index.json").read_text() == content


def test_a_link_in_place_of_a_blob_is_not_followed(registry: FakeServer, tmp_path: Path) -> None:
    folder, outside = tmp_path / "layout", tmp_path / "outside"
    pull_to_layout(image_of(registry), folder)
    blob_in(folder, FIRST).rename(outside)
    blob_in(folder, FIRST).symlink_to(outside)
    with pytest.raises(EnvironmentProblem):
        pull_to_layout(image_of(registry), folder)
    assert outside.read_bytes() == IMAGE.blobs[FIRST]


def test_a_layouts_lock_that_is_replaced_under_a_waiter_is_waited_for_again(
    registry: FakeServer, tmp_path: Path
) -> None:
    """The file that has the name now is the lock."""
    pull_to_layout(image_of(registry), tmp_path)
    lock = tmp_path / ".keyferry" / "lock"

    def pull() -> None:
        pull_to_layout(image_of(registry), tmp_path)

    replaced_while_waited_for(lock, pull)


# Progress


def told_by(registry: FakeServer, folder: Path) -> list[Progress]:
    """What is told of a pull of all that is missing; nothing is told twice."""
    told: list[Progress] = []
    pull_to_layout(image_of(registry), folder, on_progress=told.append)
    assert all(each != after for each, after in pairwise(told))
    assert told[-1] == Progress(done=TOTAL, total=TOTAL, layers_done=2, layers=2, found=told[0].found)
    return told


def put_part(folder: Path, digest: str, content: bytes) -> None:
    """Leave a part of a blob, as a pull that was cut off does."""
    drafts = folder / ".keyferry"
    drafts.mkdir(parents=True, exist_ok=True)
    (drafts / digest.replace(":", "-")).write_bytes(content)


def test_progress_goes_from_nothing_to_everything(registry: FakeServer, tmp_path: Path) -> None:
    """A pull of what is there is told once."""
    told = told_by(registry, tmp_path)
    assert told[0] == Progress(done=0, total=TOTAL, layers_done=0, layers=2, found=0)
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told_by(registry, tmp_path) == [
        Progress(done=TOTAL, total=TOTAL, layers_done=2, layers=2, found=TOTAL)
    ]


def test_whole_layers_and_parts_that_are_there_count_from_the_start(
    registry: FakeServer, tmp_path: Path
) -> None:
    """A layer that turns out to be damaged counts until it is fetched again."""
    pull_to_layout(image_of(registry), tmp_path)
    for digest in (CONFIG, SECOND):
        blob_in(tmp_path, digest).unlink()
    put_part(tmp_path, SECOND, IMAGE.blobs[SECOND][:1000])
    found = len(IMAGE.blobs[FIRST]) + 1000
    first = Progress(done=found, total=TOTAL, layers_done=1, layers=2, found=found)
    assert told_by(registry, tmp_path)[0] == first
    blob_in(tmp_path, FIRST).write_bytes(bytes(len(IMAGE.blobs[FIRST])))
    told = told_by(registry, tmp_path)
    assert (told[0].done, told[0].layers_done) == (TOTAL, 2)
    assert min((each.done, each.layers_done) for each in told) == (TOTAL - len(IMAGE.blobs[FIRST]), 1)


def test_a_part_that_is_too_long_is_worth_nothing(registry: FakeServer, tmp_path: Path) -> None:
    put_part(tmp_path, FIRST, bytes(len(IMAGE.blobs[FIRST]) + 1))
    assert told_by(registry, tmp_path)[0].done == 0


# Images that are there

NAME = "reg.io/team/app:v1"


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
    target = open_target(to=write_layout(tmp_path))
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
    assert open_target(to=tmp_path / "none").find_image(NAME) is None


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
    assert open_target(to=tmp_path).find_image(NAME) is None


def test_for_another_platform_it_is_not_there(tmp_path: Path) -> None:
    """What was pulled for one machine is no use to another."""
    write_layout(tmp_path)
    for platform, expected in (("linux/amd64", True), ("linux/arm64", False)):
        target = open_target(to=tmp_path, platform=platform)
        assert (target.find_image(NAME) is not None) is expected


@pytest.mark.parametrize("digest", ["sha256:../../../../etc/passwd", "sha256:" + "g" * 64, "", "/etc/passwd"])
def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path, digest: str) -> None:
    """Only a digest becomes part of a path."""
    write_layout(tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    index["manifests"][0]["digest"] = digest
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert open_target(to=tmp_path).list_images() == ()


def test_a_tag_alone_names_no_image(tmp_path: Path) -> None:
    """Layouts of other tools say "v1" and not of which registry; a full name in its place counts."""
    write_layout(tmp_path, annotations={"org.opencontainers.image.ref.name": "v1"})
    assert open_target(to=tmp_path).list_images() == ()
    write_layout(tmp_path, annotations={"org.opencontainers.image.ref.name": NAME})
    assert open_target(to=tmp_path).find_image(NAME) is not None


def test_an_index_that_is_none_is_an_error(tmp_path: Path) -> None:
    """Rather than an empty folder."""
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(EnvironmentProblem, match="is not the index of an OCI layout"):
        open_target(to=tmp_path).find_image(NAME)


def test_a_closed_target_pulls_no_more(registry: FakeServer, tmp_path: Path) -> None:
    """Whoever closes it ends the pull, not only the attempt with one of several credentials."""
    puller = Puller(open_target(to=tmp_path))
    puller.close()
    with pytest.raises(ImagePullError, match="cancelled"):
        puller.pull(image_of(registry))
    assert not [request for request in registry.received if "manifests" in request.path]


# Manifests

Json = dict[str, object]


def read(document: Json, content_type: str = OCI["manifest"]) -> ImageManifest | ImageIndex:
    return read_manifest(json.dumps(document).encode(), content_type, "sha256:" + "0" * 64)


def document_with(**changes: object) -> Json:
    return {**IMAGE.document, **changes}


@pytest.mark.parametrize("types", [OCI, DOCKER])
def test_a_manifest_has_a_config_and_layers_and_keeps_its_bytes(types: dict[str, str]) -> None:
    image = build(b"one", b"two", types=types)
    found = read_manifest(image.manifest, types["manifest"], image.digest)
    assert isinstance(found, ImageManifest)
    assert [blob.digest for blob in found.blobs] == list(image.blobs)
    assert found.content == image.manifest


def test_a_layer_that_occurs_twice_is_one_blob() -> None:
    image = build(b"same", b"other", b"same")
    document = image.document
    layers = document["layers"]
    assert isinstance(layers, list)
    document["layers"] = [layers[0], layers[1], layers[0]]
    found = read(document)
    assert isinstance(found, ImageManifest)
    assert len(found.layers) == 3
    assert [blob.digest for blob in found.blobs] == [found.config.digest, *(b["digest"] for b in layers[:2])]


def test_the_type_may_be_left_to_the_server_or_to_the_document() -> None:
    silent = document_with()
    del silent["mediaType"]
    assert isinstance(read(silent), ImageManifest)
    assert isinstance(read(document_with(), "application/json"), ImageManifest)
    assert isinstance(read(document_with(), f"{OCI['manifest']}; charset=utf-8"), ImageManifest)


def with_layer(**changes: object) -> Callable[[], Json]:
    def make() -> Json:
        layers = IMAGE.document["layers"]
        assert isinstance(layers, list)
        return document_with(layers=[{**layers[0], **changes}, *layers[1:]])

    return make


@pytest.mark.parametrize(
    ("make", "content_type", "said"),
    [
        (
            lambda: document_with(mediaType=DOCKER["manifest"]),
            OCI["manifest"],
            "but its mediaType is different",
        ),
        (lambda: document_with(manifests=[]), OCI["manifest"], "another kind"),
        (document_with, OCI["index"], "but its mediaType is different"),
        (
            lambda: {**document_with(manifests=[]), "mediaType": OCI["index"]},
            OCI["index"],
            "fields of a manifest",
        ),
        (
            lambda: document_with(mediaType="text/html"),
            "text/html",
            "is not that of an image manifest or index",
        ),
        (lambda: {"schemaVersion": 1}, "application/json", "schema version 1"),
        (lambda: document_with(config=None), OCI["manifest"], "config: expected an object"),
        (lambda: document_with(layers={}), OCI["manifest"], "layers: expected a list"),
        (with_layer(size=-1), OCI["manifest"], "number of bytes"),
        (with_layer(size=True), OCI["manifest"], "number of bytes"),
        (with_layer(size=1.5), OCI["manifest"], "number of bytes"),
        (with_layer(size=1 << 60), OCI["manifest"], "number of bytes"),
        (with_layer(digest="sha256:../../../etc/passwd"), OCI["manifest"], "a digest is not"),
        (with_layer(digest="md5:" + "0" * 32), OCI["manifest"], "a digest is not"),
        (with_layer(digest="sha256:" + "A" * 64), OCI["manifest"], "a digest is not"),
        (with_layer(mediaType="application/x-sh"), OCI["manifest"], "not that of a container image's layer"),
        (
            lambda: document_with(
                config={**_config(), "mediaType": "application/vnd.cncf.helm.config.v1+json"}
            ),
            OCI["manifest"],
            "config is not that",
        ),
        (
            lambda: document_with(config={**_config(), "size": 1 << 30}),
            OCI["manifest"],
            "config has 1073741824",
        ),
    ],
)
def test_what_is_wrong_or_can_be_read_in_two_ways_is_refused(
    make: Callable[[], Json], content_type: str, said: str
) -> None:
    with pytest.raises(ContentError, match=said):
        read(make(), content_type)


def _config() -> Json:
    config = IMAGE.document["config"]
    assert isinstance(config, dict)
    return config


def test_two_sizes_for_one_blob_are_refused() -> None:
    layers = IMAGE.document["layers"]
    assert isinstance(layers, list)
    with pytest.raises(ContentError, match="two sizes"):
        read(document_with(layers=[layers[0], {**layers[0], "size": 1}]))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"schemaVersion":2,"schemaVersion":2}', b"\xff\xfe{}"]
)
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(ContentError, match="JSON object"):
        read_manifest(content, OCI["manifest"], "")


def choose(platform: str, *architectures: tuple[str, str], attested: bool = True) -> str:
    images = [build(b"x", architecture=name, variant=variant) for name, variant in architectures]
    index = build_index(*images, attested=attested)
    found = read_manifest(index.manifest, index.media_type, index.digest)
    assert isinstance(found, ImageIndex)
    chosen = choose_manifest(found, parse_platform(platform))
    return {image.digest: str(image.platform) for image in images}[chosen.digest]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux/amd64", ("amd64", "")),
        ("linux/amd64/v3", ("amd64", "")),
        ("linux/arm64", ("arm64", "v8")),
        ("linux/arm/v7", ("arm", "v7")),
        ("linux/arm/v8", ("arm", "v7")),
        ("linux/arm/v6", ("arm", "v6")),
    ],
)
def test_an_index_gives_what_runs_best(platform: str, expected: tuple[str, str]) -> None:
    have = (("arm", "v6"), ("arm", "v7"), ("arm64", "v8"), ("amd64", ""))
    name, variant = expected
    document = {"architecture": name, "os": "linux", **({"variant": variant} if variant else {})}
    assert choose(platform, *have) == str(document)


def test_a_64_bit_arm_runs_32_bit_images_and_not_the_other_way() -> None:
    assert "'variant': 'v7'" in choose("linux/arm64", ("arm", "v7"), ("amd64", ""))
    with pytest.raises(ContentError, match="no image for linux/arm/v7"):
        choose("linux/arm/v7", ("arm64", "v8"), ("amd64", ""))


def test_without_a_fitting_image_those_there_are_are_named() -> None:
    with pytest.raises(
        ContentError, match="no image for linux/s390x; there are images for: linux/amd64, linux/arm64"
    ):
        choose("linux/s390x", ("arm64", "v8"), ("amd64", ""))


def test_what_a_builder_says_of_itself_is_no_image() -> None:
    """The attestation comes first, and an index of nothing else has no image."""
    index = build_index(build(), attested=True)
    document = index.document
    manifests = document["manifests"]
    assert isinstance(manifests, list)
    document["manifests"] = manifests[:1]
    found = read(document, OCI["index"])
    assert isinstance(found, ImageIndex)
    with pytest.raises(ContentError, match="no image for linux/amd64; there are images for: none"):
        choose_manifest(found, Platform(os="linux", architecture="amd64"))


def test_the_only_image_counts_if_it_names_no_platform() -> None:
    """One that names another platform does not."""
    entry: Json = {"mediaType": OCI["manifest"], "digest": "sha256:" + "1" * 64, "size": 2}
    plain = {"schemaVersion": 2, "mediaType": OCI["index"], "manifests": [entry]}
    found = read(plain, OCI["index"])
    assert isinstance(found, ImageIndex)
    assert choose_manifest(found, Platform(os="linux", architecture="amd64")).digest == entry["digest"]
    entry["platform"] = {"os": "linux", "architecture": "s390x"}
    other = read(plain, OCI["index"])
    assert isinstance(other, ImageIndex)
    with pytest.raises(ContentError, match="no image for linux/amd64; there are images for: linux/s390x"):
        choose_manifest(other, Platform(os="linux", architecture="amd64"))


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_digests_of_three_kinds_are_made_and_checked(algorithm: str) -> None:
    digest = digest_of(b"content", algorithm)
    made = hasher(digest)
    made.update(b"content")
    assert digest == f"{algorithm}:{made.hexdigest()}"


def test_a_config_names_its_platform() -> None:
    assert read_config_platform(b'{"os":"linux","architecture":"arm64","variant":"v8"}') == Platform(
        os="linux", architecture="arm64"
    )
    with pytest.raises(ContentError):
        read_config_platform(b'{"os":7}')


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linux/amd64", "linux/amd64"),
        ("linux/x86_64", "linux/amd64"),
        ("Linux/aarch64", "linux/arm64"),
        ("linux/arm64/v8", "linux/arm64"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/arm/6", "linux/arm/v6"),
        ("linux/armel", "linux/arm/v6"),
        ("windows/amd64", "windows/amd64"),
        ("linux/amd64/v1", "linux/amd64"),
    ],
)
def test_one_platform_has_one_spelling(text: str, shown: str) -> None:
    assert str(parse_platform(text)) == shown


@pytest.mark.parametrize("text", ["", "linux", "linux/", "/amd64", "a/b/c/d", "linux/*", "linux/am d64"])
def test_what_is_no_platform_is_said_with_an_example(text: str) -> None:
    with pytest.raises(EnvironmentProblem, match="linux/arm64"):
        parse_platform(text)


def test_this_machine_is_one_of_them() -> None:
    machine = this_machine()
    assert machine.os == os.uname().sysname.lower()
    assert machine == parse_platform(str(machine))
