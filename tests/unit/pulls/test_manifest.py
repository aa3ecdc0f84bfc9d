"""Manifests, indexes and digests, read strictly, and platforms."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.pulls.manifest import (
    ContentError,
    ImageIndex,
    ImageManifest,
    Platform,
    choose_manifest,
    digest_of,
    hasher,
    parse_platform,
    preferences,
    read_config_platform,
    read_manifest,
    this_machine,
)
from support.images import DOCKER, OCI, build, build_index

IMAGE = build(b"one", b"two")
Json = dict[str, object]


def read(document: Json, content_type: str = OCI["manifest"]) -> ImageManifest | ImageIndex:
    return read_manifest(json.dumps(document).encode(), content_type, "sha256:" + "0" * 64)


def manifest(**changes: object) -> Json:
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
    silent = manifest()
    del silent["mediaType"]
    assert isinstance(read(silent), ImageManifest)
    assert isinstance(read(manifest(), "application/json"), ImageManifest)
    assert isinstance(read(manifest(), f"{OCI['manifest']}; charset=utf-8"), ImageManifest)


def with_layer(**changes: object) -> Callable[[], Json]:
    def make() -> Json:
        layers = IMAGE.document["layers"]
        assert isinstance(layers, list)
        return manifest(layers=[{**layers[0], **changes}, *layers[1:]])

    return make


@pytest.mark.parametrize(
    ("make", "content_type", "said"),
    [
        (lambda: manifest(mediaType=DOCKER["manifest"]), OCI["manifest"], "but its mediaType is different"),
        (lambda: manifest(manifests=[]), OCI["manifest"], "another kind"),
        (manifest, OCI["index"], "but its mediaType is different"),
        (lambda: {**manifest(manifests=[]), "mediaType": OCI["index"]}, OCI["index"], "fields of a manifest"),
        (lambda: manifest(mediaType="text/html"), "text/html", "is not that of an image manifest or index"),
        (lambda: {"schemaVersion": 1}, "application/json", "schema version 1"),
        (lambda: manifest(config=None), OCI["manifest"], "config: expected an object"),
        (lambda: manifest(layers={}), OCI["manifest"], "layers: expected a list"),
        (with_layer(size=-1), OCI["manifest"], "number of bytes"),
        (with_layer(size=True), OCI["manifest"], "number of bytes"),
        (with_layer(size=1.5), OCI["manifest"], "number of bytes"),
        (with_layer(size=1 << 60), OCI["manifest"], "number of bytes"),
        (with_layer(digest="sha256:../../../etc/passwd"), OCI["manifest"], "a digest is not"),
        (with_layer(digest="md5:" + "0" * 32), OCI["manifest"], "a digest is not"),
        (with_layer(digest="sha256:" + "A" * 64), OCI["manifest"], "a digest is not"),
        (with_layer(mediaType="application/x-sh"), OCI["manifest"], "not that of a container image's layer"),
        (
            lambda: manifest(config={**_config(), "mediaType": "application/vnd.cncf.helm.config.v1+json"}),
            OCI["manifest"],
            "config is not that",
        ),
        (lambda: manifest(config={**_config(), "size": 1 << 30}), OCI["manifest"], "config has 1073741824"),
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
        read(manifest(layers=[layers[0], {**layers[0], "size": 1}]))


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
    digest = digest_of(b"content", f"{algorithm}:")
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


def test_older_variants_run_on_newer_ones_and_not_the_other_way() -> None:
    assert [str(each) for each in preferences(Platform(os="linux", architecture="arm", variant="v7"))] == [
        "linux/arm/v7",
        "linux/arm/v6",
        "linux/arm/v5",
    ]
    assert Platform(os="linux", architecture="arm", variant="v7") in preferences(
        Platform(os="linux", architecture="arm64")
    )
    assert Platform(os="linux", architecture="arm64") not in preferences(
        Platform(os="linux", architecture="arm", variant="v7")
    )
    assert [str(each) for each in preferences(Platform(os="linux", architecture="amd64", variant="v3"))] == [
        "linux/amd64/v3",
        "linux/amd64/v2",
        "linux/amd64",
    ]
    assert [str(each) for each in preferences(Platform(os="linux", architecture="riscv64"))] == [
        "linux/riscv64"
    ]


def test_this_machine_is_one_of_them() -> None:
    machine = this_machine()
    assert machine.os == os.uname().sysname.lower()
    assert machine == parse_platform(str(machine))
