"""OCI layouts: what is written, and what is read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, RegistryError
from keyferry.images.reference import parse_image
from keyferry.pulls.layout import IndexEntry, Layout, draft_name
from keyferry.pulls.layout_target import LayoutTarget, Meter
from keyferry.pulls.manifest import (
    ContentError,
    Descriptor,
    ImageIndex,
    ImageManifest,
    Platform,
    choose_manifest,
    hasher,
    parse_platform,
    read_config_platform,
    read_manifest,
    this_machine,
)
from keyferry.pulls.request import Progress
from support.fake_cloud import serving
from support.fake_registry import REPOSITORY, TAG, FakeRegistry
from support.images import DOCKER, OCI, BuiltImage, build, build_index, digest_of, noise
from support.locks import replaced_while_waited_for

BLOB = b"the content of a blob"


def make(folder: Path) -> Layout:
    layout = Layout(str(folder))
    layout.prepare()
    return layout


def entry(image: str = "reg.io/app:v1", tag: str = "v1", digest: str = digest_of(b"m")) -> IndexEntry:
    return IndexEntry(
        media_type="application/vnd.oci.image.manifest.v1+json",
        digest=digest,
        size=1,
        platform=Platform(os="linux", architecture="amd64"),
        image=image,
        tag=tag,
    )


def names(folder: Path) -> list[str]:
    index = json.loads((folder / "index.json").read_text())
    return [each["annotations"]["org.opencontainers.image.ref.name"] for each in index["manifests"]]


def blob(data: bytes = BLOB) -> Descriptor:
    return Descriptor(
        media_type="application/vnd.oci.image.layer.v1.tar", digest=digest_of(data), size=len(data)
    )


def test_a_new_folder_becomes_an_empty_layout(tmp_path: Path) -> None:
    make(tmp_path / "deep" / "new")
    assert json.loads((tmp_path / "deep/new/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    assert json.loads((tmp_path / "deep/new/index.json").read_text())["manifests"] == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(EnvironmentProblem, match="not empty"):
        make(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("content", ['{"imageLayoutVersion":"2.0.0"}', "{", "[]", ""])
def test_a_layout_of_another_version_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "oci-layout").write_text(content)
    with pytest.raises(EnvironmentProblem, match=r"version 1\.0\.0"):
        make(tmp_path)


def test_a_file_in_place_of_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="file: "):
        make(tmp_path / "file")


def test_a_blob_counts_only_if_size_and_digest_are_right(tmp_path: Path) -> None:
    """A look changes nothing: what is not right is removed by whoever has it locked, to fetch it again."""
    layout = make(tmp_path)
    assert not layout.has(blob())
    layout.put(BLOB, digest_of(BLOB))
    assert layout.has(blob())
    path = Path(layout.path_of(digest_of(BLOB)))
    for wrong in (BLOB[::-1], BLOB[:5]):
        path.write_bytes(wrong)
        assert not layout.has(blob())
        assert path.read_bytes() == wrong
    layout.remove(digest_of(BLOB))
    assert not path.exists()
    layout.remove(digest_of(BLOB))


def test_sizes_and_contents_can_be_asked_for_without_a_look_inside(tmp_path: Path) -> None:
    """What is not there, or is no file, has neither."""
    layout = make(tmp_path)
    layout.put(BLOB, digest_of(BLOB))
    assert layout.size_of(digest_of(BLOB)) == len(BLOB)
    assert layout.read(digest_of(BLOB)) == BLOB
    assert (layout.size_of(digest_of(b"x")), layout.read(digest_of(b"x"))) == (None, None)
    Path(layout.path_of(digest_of(b"x"))).mkdir()
    assert (layout.size_of(digest_of(b"x")), layout.read(digest_of(b"x"))) == (None, None)
    assert Layout(str(tmp_path / "none")).read_index() is None


def test_a_link_in_place_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    layout = make(tmp_path / "layout")
    layout.put(b"other", digest_of(b"other"))
    (tmp_path / "outside").write_bytes(BLOB)
    Path(layout.path_of(digest_of(BLOB))).symlink_to(tmp_path / "outside")
    with pytest.raises(EnvironmentProblem):
        layout.has(blob())
    assert (tmp_path / "outside").read_bytes() == BLOB


def test_an_image_has_its_tag_as_name_and_its_full_name_beside_it(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    assert layout.add(entry()) == "v1"
    (found,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert found["digest"] == digest_of(b"m")
    assert found["platform"] == {"os": "linux", "architecture": "amd64"}
    assert found["annotations"]["io.containerd.image.name"] == "reg.io/app:v1"


def test_the_same_image_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    layout.add(entry())
    layout.add(entry(digest=digest_of(b"newer")))
    assert names(tmp_path) == ["v1"]


def test_another_image_of_the_same_tag_is_called_by_its_full_name(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    layout.add(entry())
    assert layout.add(entry("reg.io/other:v1")) == "reg.io/other:v1"
    assert layout.add(entry("reg.io/app@sha256:1", "")) == "reg.io/app@sha256:1"
    assert names(tmp_path) == ["v1", "reg.io/other:v1", "reg.io/app@sha256:1"]


def test_what_others_wrote_into_the_index_stays(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    theirs = {
        "schemaVersion": 2,
        "x": 1,
        "manifests": [{"digest": "sha256:1", "annotations": {"a": "b"}}, {}],
    }
    (tmp_path / "index.json").write_text(json.dumps(theirs))
    layout.add(entry())
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["x"] == 1
    assert index["manifests"][:2] == theirs["manifests"]


@pytest.mark.parametrize("content", ["", "[]", '{"manifests":{}}', '{"manifests":[1]}'])
def test_a_broken_index_is_not_written_over(tmp_path: Path, content: str) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(EnvironmentProblem, match="nothing was changed"):
        layout.add(entry())
    assert (tmp_path / "index.json").read_text() == content


def test_a_layouts_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    layout = Layout(str(tmp_path))
    layout.prepare()
    replaced_while_waited_for(tmp_path / ".keyferry" / "lock", layout.prepare)


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
