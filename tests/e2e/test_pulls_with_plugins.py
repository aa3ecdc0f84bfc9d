"""A real pull with what each image plugin answers: config, look-up, plugin, registry and skopeo, under real names."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import keyferry
from support import azure_cloud, google_world
from support.aws_moto import Moto
from support.azure_acr import MANAGED, serve_managed
from support.fake_cloud import Authority, ConnectProxy
from support.parts import need
from support.plugins import provider_entry, write_config
from support.reference import write_launcher
from support.registry import Image, Registry, basic, make_image, pull, pulled_digest, running
from support.token_server import token_server

ACCOUNT = "123456789012"
# What moto gives as the password of any registry of the account.
AWS_PASSWORD = f"{ACCOUNT}-auth-token"
AWS_KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "of-no-use-to-anyone",
    "AWS_EC2_METADATA_DISABLED": "true",
}
ECR = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com"
GCR = "us-docker.pkg.dev"
ACR = azure_cloud.REGISTRY
PRIVATE = "registry.example.com"
NAMES = (ECR, GCR, ACR, PRIVATE)
REPOSITORY = "demo/team/app"
PUSHER = ("pusher", "push-word")


@dataclass(frozen=True)
class Site:
    """A registry that answers to all those names, an image in it, and the way there."""

    registry: Registry
    image: Image
    env: Mapping[str, str]

    def let_in(self, user: str, password: str) -> None:
        """Make this the only login, beside the one that pushes."""
        self.registry.set_users(dict([PUSHER, (user, password)]))

    def look_up(
        self,
        plugin: str,
        host: str,
        args: Sequence[str],
        env: Mapping[str, str],
        *,
        folder: Path,
    ) -> list[tuple[str, str]]:
        """The logins that keyferry finds for the image with one plugin in a real config, in the order of trial."""
        bin_dir = folder / "bin"
        bin_dir.mkdir()
        name = write_launcher(bin_dir, plugin).name
        variables = [{"name": key, "value": value} for key, value in env.items()]
        entry = provider_entry(name, matchImages=[host], args=list(args), env=variables)
        config = write_config(folder / "config.json", [entry])
        # Whoever runs the tests may have settings of their own for clouds, proxies and authorities.
        ours = [key for key in os.environ if key != "PATH"]
        providers = keyferry.load_providers(config, bin_dir, withhold_env=ours)
        answer = providers.lookup(f"{host}/{REPOSITORY}:v1")
        assert answer.failures == ()
        return [(found.username, found.password) for found in answer.credentials]

    def pull(self, host: str, logins: Sequence[tuple[str, str]], folder: Path) -> str:
        """Pull the image with the first login that works, as a kubelet does; gives its digest, or what was said."""
        said = ""
        for number, login in enumerate(logins):
            to = folder / f"pull-{host}-{number}"
            done = pull(f"{host}/{REPOSITORY}:v1", to, {host: login}, self.env)
            if done.returncode == 0:
                return pulled_digest(to)
            said += done.stderr
        return said

    def check(self, host: str, logins: Sequence[tuple[str, str]], folder: Path) -> None:
        """The image can be pulled with the logins found, and no longer once the registry has another password."""
        (user, password), *_ = logins
        self.let_in(user, password)
        assert self.pull(host, logins, folder) == self.image.digest
        self.let_in(user, "rotated")
        assert "authentication required" in self.pull(host, logins, folder / "rotated")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One registry for all tests here; each sets the users it wants."""
    folder = tmp_path_factory.mktemp("site")
    authority = Authority(folder)
    pem = authority.certificate("127.0.0.1", *NAMES)
    with running(folder / "registry", pem=pem, bundle=authority.bundle) as registry:
        image = make_image()
        registry.set_users(dict([PUSHER]))
        assert registry.push(REPOSITORY, "v1", image, basic(*PUSHER)) == image.digest
        with ConnectProxy(dict.fromkeys(NAMES, registry.port)) as proxy:
            env = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(authority.bundle)}
            yield Site(registry, image, env)


def helper_env(moto: Moto, home: Path) -> dict[str, str]:
    """The environment that leads Amazon's own helper to moto, under AWS' names."""
    way = {"HTTPS_PROXY": moto.proxy, "SSL_CERT_FILE": moto.authority}
    return {"HOME": str(home), "AWS_ECR_DISABLE_CACHE": "1", **AWS_KEYS, **way}


def docker_config(path: Path, host: str, user: str, password: str) -> Path:
    """Write a docker config with one login."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": {f"https://{host}/v2/": {"auth": auth}}}))
    path.chmod(0o600)
    return path


def test_without_a_login_there_is_no_pull(site: Site, tmp_path: Path) -> None:
    """So that what follows shows something."""
    assert "authentication required" in site.pull(PRIVATE, [("nobody", "nothing")], tmp_path)


def test_static_logins_pull(site: Site, tmp_path: Path) -> None:
    """From a docker config, and from a mounted secret."""
    config = docker_config(tmp_path / "config.json", PRIVATE, "alice", "s3cret:with?odd/chars")
    (tmp_path / "one").mkdir()
    logins = site.look_up("static", PRIVATE, [f"--docker-config={config}"], {}, folder=tmp_path / "one")
    assert logins == [("alice", "s3cret:with?odd/chars")]
    site.check(PRIVATE, logins, tmp_path / "one")
    docker_config(tmp_path / "secrets" / "pull" / ".dockerconfigjson", PRIVATE, "bob", "other")
    (tmp_path / "two").mkdir()
    args = [f"--secrets-dir={tmp_path / 'secrets'}"]
    logins = site.look_up("static", PRIVATE, args, {}, folder=tmp_path / "two")
    site.check(PRIVATE, logins, tmp_path / "two")


def test_a_real_docker_helper_pulls(site: Site, moto: Moto, tmp_path: Path) -> None:
    """Amazon's own helper for ECR, asked by way of docker's protocol, and itself asking AWS' API."""
    need("docker-credential-ecr-login")
    env = helper_env(moto, tmp_path)
    logins = site.look_up("docker-helper", ECR, ["--helper=ecr-login"], env, folder=tmp_path)
    assert logins == [("AWS", AWS_PASSWORD)]
    site.check(ECR, logins, tmp_path)


def test_a_helper_that_a_docker_config_names_pulls(site: Site, moto: Moto, tmp_path: Path) -> None:
    """The static plugin follows credHelpers where it is told to."""
    need("docker-credential-ecr-login")
    config = tmp_path / "docker.json"
    config.write_text(json.dumps({"credHelpers": {ECR: "ecr-login"}}))
    args = [f"--docker-config={config}", "--helpers"]
    logins = site.look_up("static", ECR, args, helper_env(moto, tmp_path), folder=tmp_path)
    site.check(ECR, logins, tmp_path)


def test_a_real_docker_helper_without_a_login_gives_none(site: Site, tmp_path: Path) -> None:
    """For a registry that is none of its own it says so, and the look-up goes on without it."""
    need("docker-credential-ecr-login")
    args = ["--helper=ecr-login"]
    assert site.look_up("docker-helper", PRIVATE, args, {"HOME": str(tmp_path)}, folder=tmp_path) == []


def test_ecr_pulls(site: Site, moto: Moto, tmp_path: Path) -> None:
    """With the login that AWS' API gives for a signed request."""
    env = {"HOME": str(tmp_path), "AWS_ENDPOINT_URL": moto.server, **AWS_KEYS}
    logins = site.look_up("ecr", ECR, [], env, folder=tmp_path)
    assert logins == [("AWS", AWS_PASSWORD)]
    site.check(ECR, logins, tmp_path)


def test_gcr_pulls(site: Site, tmp_path: Path) -> None:
    """With the token of a node's service account, from a metadata server."""
    with google_world.google_world(tmp_path) as world:
        world.on(f"GET {google_world.ACCOUNT}/token", google_world.token_reply())
        logins = site.look_up("gcr", GCR, ["get-credentials"], world.node_env(), folder=tmp_path)
    assert logins == [("_token", google_world.NODE_TOKEN)]
    site.check(GCR, logins, tmp_path)


def test_acr_pulls(site: Site, tmp_path: Path) -> None:
    """With the registry's own token, for which the machine's identity was traded."""
    with azure_cloud.serving_azure(tmp_path) as azure:
        token = serve_managed(azure)
        logins = site.look_up("acr", ACR, [azure.config(**MANAGED)], azure.environ, folder=tmp_path)
    assert logins[0] == (azure_cloud.ZERO_USER, token)
    site.check(ACR, logins[:1], tmp_path)


def test_a_registry_with_bearer_tokens_takes_the_logins_as_well(tmp_path: Path) -> None:
    """As the registries of the world do it: the login goes to a token server, and its token to the registry."""
    authority = Authority(tmp_path)
    pem = authority.certificate("127.0.0.1", PRIVATE)
    with (
        token_server(tmp_path) as (tokens, trust),
        running(tmp_path / "registry", pem=pem, bundle=authority.bundle, tokens=trust) as registry,
        ConnectProxy({PRIVATE: registry.port}) as proxy,
    ):
        image = make_image("by token")
        allowed = tokens.token("pusher", (f"repository:{REPOSITORY}:pull,push",))
        registry.push(REPOSITORY, "v1", image, f"Bearer {allowed}")
        site = Site(registry, image, {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(authority.bundle)})
        config = docker_config(tmp_path / "docker.json", PRIVATE, "alice", "by-token")
        logins = site.look_up("static", PRIVATE, [f"--docker-config={config}"], {}, folder=tmp_path)
        tokens.users["alice"] = "by-token"
        assert site.pull(PRIVATE, logins, tmp_path) == image.digest
        tokens.users["alice"] = "rotated"
        assert "unauthorized" in site.pull(PRIVATE, logins, tmp_path / "rotated")
    assert ("GET", "alice", (f"repository:{REPOSITORY}:pull",)) in tokens.asked
