"""The conformance kit on every reference plugin, installed as on a node, each with what it needs to work."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from keyferry._core.severity import Severity
from keyferry.kit.conformance import examine
from keyferry.kit.install import PLUGINS, install
from keyferry.kit.plugin import PluginUnderTest
from keyferry.kit.report import Report, Status
from support import aws_services, azure_cloud, federation, google_world
from support.aws_moto import Moto
from support.azure_acr import MANAGED, serve_managed
from support.fake_cloud import Authority, serving
from support.oidc_server import OidcServer
from support.parts import need
from support.plugins import write_executable

AWS_KEYS = {**aws_services.KEYS, "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="module")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All reference plugins in one folder, as ``keyferry plugin install`` puts them there."""
    folder = tmp_path_factory.mktemp("bin")
    for plugin in PLUGINS.values():
        install(plugin, str(folder), plugin.program)
    return folder


def check(
    bin_dir: Path,
    name: str,
    *,
    images: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str],
    known: Sequence[str] = (),
    token: str = "",
) -> None:
    """Examine a plugin: nothing fails, not even a warning, but for what is *known* of it and said to be so."""
    path = bin_dir / PLUGINS[name].program
    plugin = PluginUnderTest(
        path=str(path),
        kind=PLUGINS[name].kind,
        args=tuple(args),
        env=tuple(env.items()),
        images=tuple(images),
        token=token,
        cache_type="ServiceAccount" if token else "",
        timeout_seconds=60,
    )
    report = examine(plugin)
    assert failures(report) == sorted(known), describe(report)
    assert sum(result.status is Status.PASSED for result in report.results) > len(report.results) / 2


def failures(report: Report) -> list[str]:
    """The codes of errors and warnings."""
    return sorted(
        result.check.code
        for severity in (Severity.ERROR, Severity.WARNING)
        for result in report.failures(severity)
    )


def describe(report: Report) -> str:
    """What failed, for the reader of a failing test."""
    return "\n".join(
        f"{result.check.code} {result.check.title}: {broken.experiment}: found {broken.found}, {broken.repeat}"
        for result in report.results
        for broken in result.broken
    )


def test_static(bin_dir: Path, tmp_path: Path) -> None:
    """A docker config."""
    config = tmp_path / "config.json"
    auth = base64.b64encode(b"alice:a-long-password-of-hers").decode()
    config.write_text(json.dumps({"auths": {"registry.example": {"auth": auth}}}))
    config.chmod(0o600)
    args = ["--docker-config", str(config), "--cache-duration", "10m"]
    check(bin_dir, "static", images=["registry.example/a", "registry.example/b"], args=args, env={})


def test_docker_helper(bin_dir: Path, moto: Moto, tmp_path: Path) -> None:
    """Amazon's own helper, which asks moto."""
    # Without a home it finds that of whoever runs the tests.
    script = (
        f'#!/bin/sh\nexport HOME="${{HOME:-{tmp_path}}}"\nexec {need("docker-credential-ecr-login")} "$@"\n'
    )
    helper = str(write_executable(tmp_path / "docker-credential-ecr-login", script))
    # Amazon's SDK has a variable of its own for authorities, which whoever runs the tests may have set.
    bundles = dict.fromkeys(("SSL_CERT_FILE", "AWS_CA_BUNDLE"), moto.authority)
    way = {"HTTPS_PROXY": moto.proxy, "AWS_ECR_DISABLE_CACHE": "1", **bundles}
    host = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    args = ["--helper", helper, "--cache-duration", "10m"]
    # Where its home is no folder, the helper puts its log among the temporary files.
    check(
        bin_dir,
        "docker-helper",
        images=[f"{host}/a", f"{host}/b"],
        args=args,
        env={**AWS_KEYS, **way},
        known=["KP306"],
    )


def test_ecr(bin_dir: Path) -> None:
    """An endpoint that checks every signature."""
    fake = aws_services.FakeAws()
    with serving(fake) as server:
        images = [aws_services.IMAGE, f"{aws_services.HOST}/other"]
        check(bin_dir, "ecr", images=images, env={**AWS_KEYS, "AWS_ENDPOINT_URL": server.url})


def test_gcr(bin_dir: Path, tmp_path: Path) -> None:
    """The metadata server of a node."""
    with google_world.google_world(tmp_path) as world:
        base = "GET /computeMetadata/v1/instance/service-accounts/default"
        world.on(f"{base}/token", google_world.token_reply())
        images = ["us-docker.pkg.dev/project/repo/a", "us-docker.pkg.dev/project/repo/b"]
        check(bin_dir, "gcr", images=images, args=["get-credentials"], env=world.node_env())


def test_acr(bin_dir: Path, tmp_path: Path) -> None:
    """A node's managed identity."""
    with azure_cloud.serving_azure(tmp_path) as azure:
        serve_managed(azure)
        # Where the network is down, one more attempt is enough.
        config = azure.config(**MANAGED, cloudProviderBackoff=True, cloudProviderBackoffRetries=1)
        images = [f"{azure_cloud.REGISTRY}/a", f"{azure_cloud.REGISTRY}/b"]
        # An entry without user and password lets the kubelet try once without: some registries are public.
        check(bin_dir, "acr", images=images, args=[config], env=azure.environ, known=["KP119"])


@pytest.mark.parametrize("source", ["file", "kubelet"])
def test_federate(source: str, bin_dir: Path, tmp_path: Path) -> None:
    """A token in a file or in the request, exchanged at a server that checks it, and issues a new one each second."""
    token = federation.account_token()
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text(token)
    with serving(federation.EXAMPLES["jfrog"].handler, authority.context("127.0.0.1")) as server:
        host = f"127.0.0.1:{server.port}"
        claims = {"audience": federation.AUDIENCE, "issuer": federation.ISSUER}
        places = {"file": {"from": "file", "file": str(tmp_path / "token")}, "kubelet": {}}
        subject = {**places[source], **claims}
        rule = federation.rule_of("jfrog", registries=[host], subject=subject, caFile=str(authority.bundle))
        config = federation.write_config(tmp_path / "federation.json", rule)
        images = [f"{host}/team/a", f"{host}/team/b"]
        given = token if source == "kubelet" else ""
        check(bin_dir, "federate", images=images, args=["--config", str(config)], env={}, token=given)


@pytest.mark.parametrize(
    "args",
    [["get-token", "--cluster-name", "my-cluster", "--region", "us-west-2"], ["token", "-i", "my-cluster"]],
    ids=["cli", "authenticator"],
)
def test_eks(bin_dir: Path, args: list[str]) -> None:
    """Keys in the environment: no network is needed."""
    check(bin_dir, "eks", args=args, env=AWS_KEYS)


def test_gke(bin_dir: Path, tmp_path: Path) -> None:
    """A service account's key."""
    with google_world.google_world(tmp_path) as world:
        key = world.write("key.json", google_world.service_account())
        world.on("POST oauth2.googleapis.com/token", google_world.token_reply())
        args = ["--use_application_default_credentials"]
        check(bin_dir, "gke", args=args, env=world.env(GOOGLE_APPLICATION_CREDENTIALS=key))


def test_aks(bin_dir: Path, tmp_path: Path) -> None:
    """A service principal's secret."""
    with azure_cloud.serving_azure(tmp_path) as azure:
        azure.on(azure_cloud.ENTRA, azure_cloud.token_reply())
        named = ["--server-id", azure_cloud.SERVER_ID, "--client-id", azure_cloud.CLIENT]
        args = ["get-token", "--login", "spn", *named, "--tenant-id", azure_cloud.TENANT]
        env = {**azure.environ, "AZURE_CLIENT_SECRET": "marked-client-secret-4711"}
        check(bin_dir, "aks", args=args, env=env)


def test_oidc(bin_dir: Path, oidc: OidcServer) -> None:
    """A client of a real server."""
    args = [
        "get-token",
        f"--oidc-issuer-url={oidc.issuer}",
        "--oidc-client-id=svc",
        "--oidc-client-secret=svc-secret",
        "--grant-type=client-credentials",
        "--oidc-use-access-token",
        "--oidc-extra-scope=api",
        f"--certificate-authority={oidc.authority.bundle}",
    ]
    check(bin_dir, "oidc", args=args, env={})
