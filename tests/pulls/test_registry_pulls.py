"""Pulls into a layout from a real registry: with passwords, with tokens, over TLS and without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry import (
    Credential,
    Platform,
    PullOptions,
    PullOutcome,
    RegistryRoute,
    check_registry,
    check_registry_async,
)
from keyferry.errors import EnvironmentProblem, ImageNameError, ImagePullError, KeyferryError, RegistryError
from keyferry.pulls.manifest import parse_platform
from keyferry.pulls.puller import pull as pull_image
from support.fake_cloud import Authority
from support.fake_registry import credential
from support.images import DOCKER, BuiltImage, build, build_index, digest_of, noise, push
from support.layouts import pull_to_layout, pull_to_layout_async
from support.registry import Registry, basic, running
from support.token_server import TokenServer, token_server

USER, PASSWORD = "alice", "s3cret-word"
GOOD, BAD = credential(USER, PASSWORD), credential("mallory", "not-it", "two")
AMD64 = Platform(os="linux", architecture="amd64")
IMAGE = build(b"first layer", noise(300_000), b"third")
ARM = build(b"for arm", architecture="arm64", variant="v8")
INDEX = build_index(ARM, IMAGE, attested=True)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        fill(server, basic(USER, PASSWORD))
        yield server


def fill(server: Registry, proof: str) -> None:
    push(server, "team/app", "v1", IMAGE, proof)
    push(server, "team/app", "many", INDEX, proof)


@pytest.fixture(autouse=True)
def _users(registry: Registry) -> Iterator[None]:
    yield
    registry.set_users({USER: PASSWORD})


def pull(registry: Registry, folder: Path, *credentials: Credential, reference: str = ":v1") -> PullOutcome:
    return pull_to_layout(f"{registry.host}/team/app{reference}", folder, credentials, platform=AMD64)


def said_by(error: KeyferryError | None) -> RegistryError:
    assert isinstance(error, RegistryError)
    return error


def check_layout(folder: Path, image: BuiltImage) -> None:
    """Everything is there, under its own digest, and nothing else."""
    held = {f"sha256:{path.name}": path.read_bytes() for path in (folder / "blobs/sha256").iterdir()}
    assert held == {**image.blobs, image.digest: image.manifest}
    assert all(digest_of(data) == name for name, data in held.items())


def test_a_pull_leaves_exactly_the_image(registry: Registry, tmp_path: Path) -> None:
    pulled = pull(registry, tmp_path, GOOD)
    check_layout(tmp_path, IMAGE)
    assert pulled.digest == pulled.manifest_digest == IMAGE.digest
    assert pulled.image_ref == next(iter(IMAGE.blobs))
    assert pulled.platform == AMD64
    assert pulled.used == GOOD
    assert pulled.size == len(IMAGE.manifest) + sum(map(len, IMAGE.blobs.values()))
    assert len(pulled.layers) == 3
    assert pulled.name == "v1"


def test_an_image_of_a_layout_is_told_alike_whether_it_was_pulled_or_there(
    registry: Registry, tmp_path: Path
) -> None:
    """Its name in the layout, its platform, its manifest and its layers; only a pull learns what the index is."""
    image = f"{registry.host}/team/app:many"
    first, second = (
        pull_image(image, PullOptions(credentials=[GOOD]), to=tmp_path, platform=platform)
        for platform in (AMD64, "linux/amd64")
    )
    assert (first.action, second.action) == ("pulled", "present")
    assert (first.digest, second.digest) == (INDEX.digest, IMAGE.digest)
    assert first.attempts[0].digest == INDEX.digest
    assert second.attempts == ()
    for each in (first, second):
        assert (each.name, each.platform, each.manifest_digest) == ("many", AMD64, IMAGE.digest)
        assert (each.image_ref, len(each.layers)) == (next(iter(IMAGE.blobs)), 3)
        assert each.size == len(IMAGE.manifest) + sum(map(len, IMAGE.blobs.values()))


def test_a_name_is_told_as_it_was_pulled_also_where_another_stands_for_the_same_image(
    registry: Registry, tmp_path: Path
) -> None:
    outcomes = [pull(registry, tmp_path, GOOD, reference=each) for each in (":v1", ":many", ":v1")]
    assert [outcome.name for outcome in outcomes] == ["v1", "many", "v1"]
    assert len({outcome.image_ref for outcome in outcomes}) == 1


def test_credentials_are_tried_in_order_until_one_works(registry: Registry, tmp_path: Path) -> None:
    pulled = pull(registry, tmp_path, BAD, GOOD, credential("never", "tried"))
    assert pulled.used == GOOD
    assert [(each.credential, each.worked) for each in pulled.attempts] == [(BAD, False), (GOOD, True)]
    error = said_by(pulled.attempts[0].error)
    assert (error.status, error.is_refusal, error.registry) == (401, True, registry.host)
    assert "unauthorized: authentication required" in str(error)


def test_a_missing_image_is_told_apart_from_a_refusal_and_all_are_tried(
    registry: Registry, tmp_path: Path
) -> None:
    with pytest.raises(ImagePullError) as caught:
        pull(registry, tmp_path, BAD, GOOD, reference=":nothing")
    assert [said_by(failure).kind for failure in caught.value.failures] == ["refused", "not-found"]
    assert caught.value.kind == "not-found"
    assert not caught.value.is_refusal


@pytest.mark.parametrize(("text", "image"), [("linux/amd64", IMAGE), ("linux/arm64", ARM)])
def test_of_an_index_the_wanted_platform_is_pulled(
    registry: Registry, tmp_path: Path, text: str, image: BuiltImage
) -> None:
    platform = parse_platform(text)
    pulled = pull_to_layout(f"{registry.host}/team/app:many", tmp_path, [GOOD], platform=platform)
    check_layout(tmp_path, image)
    assert (pulled.digest, pulled.manifest_digest) == (INDEX.digest, image.digest)
    assert pulled.platform == platform


@pytest.mark.parametrize("reference", [":v1", ":many"])
def test_a_platform_that_is_not_there_is_said_with_those_that_are(
    registry: Registry, tmp_path: Path, reference: str
) -> None:
    image = f"{registry.host}/team/app{reference}"
    with pytest.raises(ImagePullError, match=r"no image for linux/s390x.*linux/amd64"):
        pull_to_layout(image, tmp_path, [GOOD], platform=Platform(os="linux", architecture="s390x"))


@pytest.mark.parametrize("digest", [IMAGE.digest, INDEX.digest], ids=["image", "index"])
def test_a_digest_is_what_is_pulled_whatever_the_tag_says(
    registry: Registry, tmp_path: Path, digest: str
) -> None:
    pulled = pull(registry, tmp_path, GOOD, reference=f":many@{digest}")
    assert pulled.digest == digest
    check_layout(tmp_path, IMAGE)


def test_an_image_with_dockers_types_is_kept_as_it_is(registry: Registry, tmp_path: Path) -> None:
    image = build(b"by docker", types=DOCKER)
    push(registry, "team/docker", "v1", image, basic(USER, PASSWORD))
    pulled = pull_to_layout(f"{registry.host}/team/docker:v1", tmp_path, [GOOD], platform=AMD64)
    check_layout(tmp_path, image)
    (entry,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert (entry["mediaType"], entry["digest"]) == (DOCKER["manifest"], pulled.digest)


def test_what_is_there_is_not_fetched_again_and_what_is_broken_is(registry: Registry, tmp_path: Path) -> None:
    pull(registry, tmp_path, GOOD)
    fetched = registry.log.count("/blobs/sha256:")
    pull(registry, tmp_path, GOOD)
    assert registry.log.count("/blobs/sha256:") == fetched
    config, *_, last = (tmp_path / "blobs/sha256" / name[7:] for name in IMAGE.blobs)
    config.write_bytes(b"{}")
    last.unlink()
    pull(registry, tmp_path, GOOD)
    check_layout(tmp_path, IMAGE)


def test_a_check_asks_with_each_credential_and_downloads_nothing(registry: Registry) -> None:
    before = len(registry.log)
    attempts = check_registry(f"{registry.host}/team/app:v1", [BAD, GOOD, BAD])
    assert [each.worked for each in attempts] == [False, True, False]
    assert attempts[1].digest == IMAGE.digest
    said = registry.log[before:]
    assert "/blobs/" not in said
    assert not [
        line
        for line in said.splitlines()
        if '"GET"' in line and '"http.response.status":200' in line and "manifests" in line
    ]


def test_both_can_be_awaited(registry: Registry, tmp_path: Path) -> None:
    async def both() -> tuple[PullOutcome, bool]:
        image = f"{registry.host}/team/app:v1"
        pulled = await pull_to_layout_async(image, tmp_path, [GOOD])
        (attempt,) = await check_registry_async(image, [GOOD])
        return pulled, attempt.worked

    pulled, worked = asyncio.run(both())
    assert pulled.manifest_digest == IMAGE.digest
    assert worked


def test_over_tls_the_authority_must_be_known(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.context("127.0.0.1")
    (pem,) = tmp_path.glob("server-*.pem")
    with running(tmp_path / "registry", pem=pem, bundle=authority.bundle) as registry:
        registry.set_users({USER: PASSWORD})
        fill(registry, basic(USER, PASSWORD))
        with pytest.raises(ImagePullError, match=r"certificate is not trusted.*--ca-file"):
            pull(registry, tmp_path / "layout", GOOD)
        for route in (RegistryRoute(ca_file=str(authority.bundle)), RegistryRoute(is_insecure=True)):
            pulled = pull_to_layout(f"{registry.host}/team/app:v1", tmp_path / "layout", [GOOD], route=route)
            assert pulled.manifest_digest == IMAGE.digest


def test_a_registry_of_this_machine_may_do_without_tls_whatever_is_trusted(
    registry: Registry, tmp_path: Path
) -> None:
    """With a CA file TLS is tried first, and plain HTTP after it."""
    route = RegistryRoute(ca_file=str(Authority(tmp_path).bundle))
    (attempt,) = check_registry(f"{registry.host}/team/app:v1", [GOOD], route=route)
    assert attempt.worked


def test_a_ca_file_must_be_one(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    for name, said in (("no.pem", "cannot be read as certificates"), ("none.pem", "does not exist")):
        with pytest.raises(EnvironmentProblem, match=said):
            check_registry(f"{registry.host}/team/app", route=RegistryRoute(ca_file=str(tmp_path / name)))


@pytest.fixture
def bearer(tmp_path: Path) -> Iterator[tuple[Registry, TokenServer]]:
    with token_server(tmp_path) as (tokens, auth), running(tmp_path / "registry", tokens=auth) as registry:
        tokens.users[USER] = PASSWORD
        proof = f"Bearer {tokens.token(USER, ('repository:team/app:pull,push',))}"
        fill(registry, proof)
        yield registry, tokens


def test_a_token_is_fetched_once_for_a_pull(bearer: tuple[Registry, TokenServer], tmp_path: Path) -> None:
    registry, tokens = bearer
    pulled = pull(registry, tmp_path / "layout", GOOD)
    check_layout(tmp_path / "layout", IMAGE)
    assert pulled.used == GOOD
    assert tokens.asked == [("GET", USER, ("repository:team/app:pull",))]


def test_a_token_server_that_refuses_is_named(bearer: tuple[Registry, TokenServer], tmp_path: Path) -> None:
    registry, tokens = bearer
    with pytest.raises(
        ImagePullError, match=r"token server .* refused the credential .status 401.*bad credentials"
    ):
        pull(registry, tmp_path / "layout", BAD)
    with pytest.raises(ImagePullError, match="refused a request without a credential"):
        pull(registry, tmp_path / "layout")
    assert [user for _, user, _ in tokens.asked] == [BAD.username, ""]


@pytest.mark.parametrize("image", ["", "reg.io/UPPER", "https://registry.example/app", "a b"])
def test_what_is_no_image_name_is_said_before_anything_is_done(image: str, tmp_path: Path) -> None:
    with pytest.raises(ImagePullError) as caught:
        pull_to_layout(image, tmp_path / "layout")
    assert (caught.value.kubelet_reason, caught.value.kind) == ("InvalidImageName", "name")
    with pytest.raises(ImageNameError):
        check_registry(image)
    assert not (tmp_path / "layout").exists()
