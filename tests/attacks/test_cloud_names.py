"""An image whose name only looks like a cloud's never leads a token of that cloud to somebody else, with any flag."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import azure_acr, azure_cloud
from support.aws_services import HOST, KEYS, PASSWORD, REGION, FakeAws
from support.azure_cloud import Azure, serving_azure
from support.fake_cloud import Received, Reply, serving
from support.google_world import ACCOUNT, NODE_TOKEN, google_world, token_reply
from support.plugins import write_executable
from support.reference import Answer, ask_image

EVIL = "evil.example"
WAYS = pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])


def outside(host: str) -> list[str]:
    """Images of somebody else's registry, with *host* of a cloud wherever a name has room for it."""
    return [
        f"{EVIL}/{host}/app",
        f"{EVIL}:443/{host}/app",
        f"{EVIL}/app:{host}",
        f"{EVIL}/app?{host}",
        f"{EVIL}/app#{host}",
        f"{EVIL}#{host}/app",
        f"{EVIL}?{host}/app",
        f"{EVIL}\\{host}/app",
        f"{EVIL}:{host}/app",
        f"{host}@{EVIL}/app",
        f"{host}:443@{EVIL}/app",
        f"{host}:pw@{EVIL}/app",
        f"{host.upper()}@{EVIL}/app",
        f"{host}.@{EVIL}/app",
        f"{host}%2f@{EVIL}/app",
        f"x{host.partition('.')[2]}.{EVIL}/app",
        f"{host}.{EVIL}/app",
        f"{host.upper()}.{EVIL}/app",
        f"{host}-{EVIL}/app",
        f"https://{EVIL}/{host}/app",
    ]


def offered_to_strangers(answer: Answer, zones: tuple[str, ...]) -> list[str]:
    """The keys with a login that are not plain names below one of the cloud's *zones*."""
    if answer.status:
        assert answer.stdout == ""
        return []
    keys = [key for key, login in answer.auth.items() if any(login)]
    return [key for key in keys if not key.partition(":")[0].endswith(zones) or set(key) & set("@/?#\\%")]


def greedy(received: Received) -> Reply:
    """A registry of somebody else's that leads to itself and takes what it is given."""
    if received.method == "GET":
        return azure_cloud.challenge(EVIL)
    return Reply(200, {"refresh_token": azure_cloud.registry_token()})


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Azure]:
    """Azure and a stranger, each on loopback under its own name."""
    with serving_azure(tmp_path) as served:
        served.on_imds(azure_cloud.imds_answers())
        served.on(azure_cloud.REGISTRY, azure_cloud.registry_answers())
        served.on(EVIL, greedy)
        yield served


@WAYS
@pytest.mark.parametrize(
    "image", [*outside(azure_cloud.REGISTRY), "notazurecr.io/app", "u@myreg.azurecr.io/app"]
)
def test_an_entra_token_goes_to_azure_alone(azure: Azure, image: str, args: tuple[str, ...]) -> None:
    """The stranger is not even asked what it wants."""
    answer = azure_acr.ask(azure, azure_acr.MANAGED, *args, image=image)
    assert azure.sent(EVIL) == []
    assert set(azure.asked) <= {f"{azure_cloud.REGISTRY}:443"}
    assert offered_to_strangers(answer, (".azurecr.io",)) == []


@WAYS
@pytest.mark.parametrize("image", [f"mcr.example.{EVIL}/app", f"mcr.example@{EVIL}/app"])
def test_a_mirror_leads_no_entra_token_astray(azure: Azure, image: str, args: tuple[str, ...]) -> None:
    """A source that is only the beginning of a host."""
    mirror = f"--registry-mirror=mcr.example:{azure_cloud.REGISTRY}"
    answer = azure_acr.ask(azure, azure_acr.MANAGED, mirror, *args, image=image)
    assert azure.sent(EVIL) == []
    assert offered_to_strangers(answer, (".azurecr.io", "mcr.example")) == []


@WAYS
@pytest.mark.parametrize("image", [*outside(HOST), f"{HOST.upper()}/app", f"{HOST}./app", f"x{HOST}/app"])
def test_a_login_of_ecr_is_offered_to_ecr_alone(tmp_path: Path, image: str, args: tuple[str, ...]) -> None:
    """Only AWS is asked for it, and nobody else's name stands in the answer."""
    with serving(FakeAws()) as server:
        env = {"HOME": str(tmp_path), "AWS_ENDPOINT_URL": server.url, "AWS_REGION": REGION, **KEYS}
        answer = ask_image("ecr", image, args=args, env=env | {"AWS_EC2_METADATA_DISABLED": "true"})
    assert offered_to_strangers(answer, (HOST,)) == []
    assert PASSWORD not in answer.stderr


@WAYS
@pytest.mark.parametrize(
    "image", [*outside("us-docker.pkg.dev"), "gcr.io:8080/app", "u@gcr.io/app", "xgcr.io/app"]
)
def test_a_token_of_google_is_offered_to_google_alone(
    tmp_path: Path, image: str, args: tuple[str, ...]
) -> None:
    """With --compat the registries that upstream always names get it, and the image's is none of them."""
    with google_world(tmp_path) as world:
        world.on(f"GET {ACCOUNT}/token", token_reply())
        world.on(f"GET {ACCOUNT}/email", Reply(body=b"node@demo.iam.gserviceaccount.com"))
        answer = ask_image("gcr", image, args=args, env=world.node_env(HTTP_PROXY=world.proxy.url))
        assert set(world.proxy.asked) <= {"metadata.google.internal."}
    zones = ("gcr.io", ".pkg.dev", "container.cloud.google.com")
    assert offered_to_strangers(answer, zones) == []
    assert image.partition("/")[0] not in (answer.auth if answer.status == 0 else ())
    assert NODE_TOKEN not in answer.stderr


@pytest.mark.parametrize("image", outside(HOST))
def test_a_helper_is_asked_for_the_registry_and_for_no_other(tmp_path: Path, image: str) -> None:
    """A helper that has a login for the cloud's registry alone, as that of ECR, is never asked for that."""
    seen = tmp_path / "seen"
    login = json.dumps({"ServerURL": HOST, "Username": "AWS", "Secret": PASSWORD})
    script = f'url=$(cat)\necho "$url" >> {shlex.quote(str(seen))}\n'
    script += f"[ \"$url\" = {HOST} ] && printf '%s' {shlex.quote(login)} && exit 0\n"
    script += "echo 'credentials not found in native keychain'; exit 1\n"
    write_executable(tmp_path / "docker-credential-test", f"#!/bin/sh\n{script}")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = ask_image("docker-helper", image, args=["--helper", "test"], env=env)
    assert answer.status or answer.auth == {}
    assert not seen.exists() or HOST not in seen.read_text().split()
    assert PASSWORD not in answer.stdout + answer.stderr
