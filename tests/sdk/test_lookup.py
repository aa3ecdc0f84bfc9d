"""Plugins on the SDK through keyferry's own side of the pipe: a provider config, and a kubeconfig."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry import ClusterSession, Pod, ServiceAccount, StaticAccount, load_cluster, load_providers
from keyferry.errors import PluginExitError
from support.certificates import key_pem, make_certificate, make_key
from support.kube import Kube
from support.plugins import Node, provider_entry, write_config
from support.sdk_plugins import CLUSTER_GROUP, IMAGE_GROUP, cluster_plugin, image_plugin, write_plugin

IMAGE = "registry.example/team/app:v1"
POD = Pod(namespace="ns", name="pod", uid="uid", service_account_name="builder")


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
@pytest.mark.parametrize("key_type", ["Image", "Registry", "Global"])
def test_a_lookup_gets_the_login(node: Node, version: str, key_type: str) -> None:
    """The strict side of the pipe takes the answer in every version, and caches it as far as it says."""
    body = f"""\
with open({str(node.file("runs"))!r}, "a") as file:
    file.write(request.image + "\\n")
return Response(
    auth={{request.registry: AuthConfig(username="user", password="pass-word")}},
    cache_key_type="{key_type}",
    cache_seconds=600,
)"""
    write_plugin(node.bin_dir / "plugin", image_plugin(body))
    node.provider(apiVersion=f"{IMAGE_GROUP}/{version}")
    providers = node.load()
    for image in (IMAGE, IMAGE, "registry.example/other/app"):
        (credential,) = providers.lookup(image).credentials
        assert (credential.username, credential.password) == ("user", "pass-word")
    asked = ["registry.example/team/app", "registry.example/other/app"]
    assert node.file("runs").read_text().split() == (asked if key_type == "Image" else asked[:1])


def test_a_service_account_reaches_the_function(node: Node) -> None:
    """Token and annotations come with the request, typed."""
    body = """\
name = request.service_account_annotations["example.com/user"]
return Response.for_image(request, name, request.service_account_token)"""
    write_plugin(node.bin_dir / "plugin", image_plugin(body))
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "Token",
        "requireServiceAccount": True,
        "requiredServiceAccountAnnotationKeys": ["example.com/user"],
    }
    write_config(node.config, [provider_entry(tokenAttributes=attributes)])
    account = ServiceAccount(uid="uid-1", annotations={"example.com/user": "robot"})
    accounts = StaticAccount(account=account, token_text="sa-token-value")
    providers = load_providers(node.config, node.bin_dir, service_accounts=accounts)
    (credential,) = providers.lookup(IMAGE, pod=POD).credentials
    assert (credential.username, credential.password) == ("robot", "sa-token-value")


def test_no_login_and_a_failure_are_told_apart(node: Node) -> None:
    """An empty answer is no failure; a ProvideError is one, with the plugin's words."""
    body = """\
if request.image.endswith("/broken"):
    raise ProvideError("no login for you", "ask the registry's owner")
return Response()"""
    write_plugin(node.bin_dir / "plugin", image_plugin(body))
    providers = node.load()
    (failure,) = providers.lookup("registry.example/broken").failures
    assert isinstance(failure.error, PluginExitError)
    assert failure.error.status == 1
    assert "plugin: no login for you\nplugin: ask the registry's owner" in failure.error.stderr_tail
    empty = providers.lookup("registry.example/empty")
    assert (empty.credentials, empty.failures) == ((), ())


def session_of(folder: Path, plugin: str, version: str = "v1") -> ClusterSession:
    """A session with the cluster plugin of this source."""
    user = {
        "apiVersion": f"{CLUSTER_GROUP}/{version}",
        "command": str(write_plugin(folder / "plugin", plugin)),
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    kube = Kube(folder)
    kube.write("https://127.0.0.1:1", user={"exec": user})
    return load_cluster(kubeconfig=kube.path, trust=True)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_session_gets_its_token(tmp_path: Path, version: str) -> None:
    """A kubeconfig that names the plugin gives an authenticated session, for the cluster it is told of."""
    plugin = cluster_plugin("return ExecResponse(token='for-' + request.cluster.server[8:])")
    credential = session_of(tmp_path, plugin, version).grant().credential
    assert credential is not None
    assert (credential.token, credential.certificate_pem) == ("for-127.0.0.1:1", "")


def test_a_certificate_and_its_end_arrive(tmp_path: Path) -> None:
    """Certificate, key and expiry pass the client's checks."""
    key = make_key()
    pair = (make_certificate(key), key_pem(key))
    parts = f"client_certificate_data={pair[0]!r}, client_key_data={pair[1]!r}"
    plugin = cluster_plugin(f"return ExecResponse(token='t', expires_at=2000000000.9, {parts})")
    credential = session_of(tmp_path, plugin).grant().credential
    assert credential is not None
    assert (credential.token, credential.certificate_pem, credential.key_pem) == ("t", *pair)
    assert credential.expires_ns == 2_000_000_000 * 10**9
