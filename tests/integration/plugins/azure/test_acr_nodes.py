"""The node's own identity at a registry of Azure: certificate, workload identity, clouds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import azure_cloud as cloud
from support.azure_acr import MANAGED, PRINCIPAL, ask, serve_managed
from support.azure_certificates import PASSWORD, make_certified
from support.azure_cloud import CLIENT, ENTRA, REGISTRY, TENANT, Azure
from support.certificates import key_pem, make_certificate, make_key
from support.fake_cloud import Received, Reply
from support.reference import ask_image

CERTIFIED: dict[str, object] = {"aadClientId": CLIENT, "tenantId": TENANT}
TOKEN_URL = f"https://{ENTRA}/{TENANT}/oauth2/v2.0/token"


@pytest.mark.parametrize("form", ["pem", "certificate first", "encrypted pem", "pfx"])
def test_a_certificate_logs_in(azure: Azure, tmp_path: Path, form: str) -> None:
    """The assertion is signed by the key, and carries the certificate's thumbprint and the token endpoint."""
    certified = make_certified()
    password = PASSWORD if form in ("encrypted pem", "pfx") else ""
    if form == "pfx":
        path = certified.write_pfx(tmp_path)
    else:
        path = certified.write_pem(
            tmp_path,
            password="" if form != "encrypted pem" else PASSWORD,
            key_first=form != "certificate first",
        )

    def answer(received: Received) -> Reply:
        assert (received.method, received.target) == ("POST", f"/{TENANT}/oauth2/v2.0/token")
        certified.check(received.form["client_assertion"], CLIENT, TOKEN_URL)
        assert received.form["grant_type"] == "client_credentials"
        assert received.form["client_id"] == CLIENT
        assert received.form["scope"] == f"{cloud.AUDIENCE}/.default"
        return cloud.token_reply()

    azure.on(ENTRA, answer)
    azure.on(REGISTRY, cloud.registry_answers())
    config = {**CERTIFIED, "aadClientCertPath": path, "aadClientCertPassword": password}
    assert set(ask(azure, config).auth) == {"*.azurecr.*", REGISTRY}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no RSA private key"),
        ("clientmarksecret", "no RSA private key"),
        (key_pem(make_key("ec")) + make_certificate(make_key("ec")), "no RSA private key"),
        (key_pem(make_key("rsa")) + make_certificate(make_key("rsa")), "no certificate of its private key"),
    ],
    ids=["empty", "garbage", "elliptic", "another's certificate"],
)
def test_a_certificate_that_cannot_be_used_is_named(
    azure: Azure, tmp_path: Path, content: str, said: str
) -> None:
    """The error names the file and quotes none of it."""
    path = tmp_path / "client.pem"
    path.write_text(content)
    answer = ask(azure, {**CERTIFIED, "aadClientCertPath": str(path)})
    assert answer.status == 1
    assert said in answer.stderr
    assert str(path) in answer.stderr
    assert "PRIVATE KEY" not in answer.stderr


def test_a_wrong_certificate_password_is_not_shown(azure: Azure, tmp_path: Path) -> None:
    """Neither the right one nor the one given."""
    path = make_certified().write_pfx(tmp_path)
    answer = ask(azure, {**CERTIFIED, "aadClientCertPath": path, "aadClientCertPassword": "wrongmark"})
    assert answer.status == 1
    cloud.never_shown(answer.stderr, PASSWORD, "wrongmark")


def test_an_unknown_certificate_is_explained(azure: Azure, tmp_path: Path) -> None:
    """Entra does not know it, so it is to be uploaded; the assertion does not show."""
    azure.on(ENTRA, lambda received: cloud.refused(700027, text=received.form["client_assertion"]))
    answer = ask(azure, {**CERTIFIED, "aadClientCertPath": make_certified().write_pem(tmp_path)})
    assert answer.status == 1
    assert "az ad app credential reset --cert" in answer.stderr
    assert "eyJ" not in answer.stderr


def test_compat_does_not_know_certificates(azure: Azure, tmp_path: Path) -> None:
    """As upstream, an empty password is handed out."""
    config = {**CERTIFIED, "aadClientCertPath": make_certified().write_pem(tmp_path)}
    assert ask(azure, config, "--compat").auth["*.azurecr.io"] == (CLIENT, "")


@pytest.mark.parametrize("way", ["config", "switch over managed identity", "environment"])
def test_a_token_file_logs_in(azure: Azure, tmp_path: Path, way: str) -> None:
    """Workload identity of the node, from the config or from the variables that pods have."""
    token, assertion = cloud.registry_token(), cloud.pod_token()
    path = tmp_path / "token"
    path.write_text(f"{assertion}\n")
    azure.on(ENTRA, cloud.federated_answers(assertion))
    azure.on(REGISTRY, cloud.registry_answers(token))
    named: dict[str, object] = {
        "aadClientId": CLIENT,
        "tenantId": TENANT,
        "aadFederatedTokenFile": str(path),
    }
    switch: dict[str, object] = {
        "useFederatedWorkloadIdentityExtension": True,
        "useManagedIdentityExtension": True,
    }
    variables = {
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_TENANT_ID": TENANT,
        "AZURE_FEDERATED_TOKEN_FILE": str(path),
    }
    config = {"config": named, "environment": {}, "switch over managed identity": named | switch}[way]
    answer = ask(azure, config, env=variables if way == "environment" else {})
    assert answer.auth[REGISTRY] == (cloud.ZERO_USER, token)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("", "holds no token"),
        ("a b", "holds no token"),
        ("x" * 70000, "longer than"),
    ],
    ids=["missing", "empty", "blank inside", "long"],
)
def test_a_token_file_without_a_token_is_named(
    azure: Azure, tmp_path: Path, content: str | None, said: str
) -> None:
    """The error names the file."""
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    answer = ask(azure, {**CERTIFIED, "aadFederatedTokenFile": str(path)})
    assert answer.status == 1
    assert said in answer.stderr
    assert str(path) in answer.stderr


@pytest.mark.parametrize("config", [{}, {"aadClientId": CLIENT}, {"aadClientSecret": "clientmarksecret"}])
def test_a_config_without_an_identity_says_what_to_set(azure: Azure, config: dict[str, object]) -> None:
    """The error names the keys of the config that would give one."""
    answer = ask(azure, config)
    assert answer.status == 1
    assert "useManagedIdentityExtension" in answer.stderr


@pytest.mark.parametrize(
    ("name", "authority", "registry"),
    [
        ("AzureUSGovernmentCloud", "login.microsoftonline.us", "myreg.azurecr.us"),
        (" azurechinacloud ", "login.chinacloudapi.cn", "myreg.azurecr.cn"),
        ("unheard of", ENTRA, REGISTRY),
    ],
)
def test_each_cloud_has_its_own_authority(azure: Azure, name: str, authority: str, registry: str) -> None:
    """The pod's token goes to the authority of the node's cloud; an unknown cloud is the public one."""
    pod = cloud.pod_token()
    azure.on(authority, cloud.federated_answers(pod))
    azure.on(registry, cloud.registry_answers(host=registry))
    annotations = {"kubernetes.azure.com/acr-client-id": CLIENT, "kubernetes.azure.com/acr-tenant-id": TENANT}
    answer = ask(azure, {"cloud": name}, image=f"{registry}/app", token=pod, annotations=annotations)
    assert set(answer.auth) == {"*.azurecr.*", registry}


STACK_REGISTRY = "myreg.azurecr.stack.example"


@pytest.mark.parametrize("way", ["file", "resource manager", "both"])
def test_a_private_cloud_is_described_by_file_or_resource_manager(
    azure: Azure, tmp_path: Path, way: str
) -> None:
    """Authority and registry suffix are the private cloud's; the resource manager has the last word."""
    certified = make_certified()
    described = tmp_path / "stack.json"
    right = {
        "activeDirectoryEndpoint": "https://login.stack.example",
        "containerRegistryDNSSuffix": ".azurecr.stack.example",
    }
    wrong = {"activeDirectoryEndpoint": "https://evil.example/", "containerRegistryDNSSuffix": "evil.example"}
    described.write_text(json.dumps(right if way == "file" else wrong))
    config: dict[str, object] = {
        "cloud": "AzureStackCloud",
        "aadClientId": CLIENT,
        "tenantId": TENANT,
        "aadClientCertPath": certified.write_pem(tmp_path),
    }
    if way != "file":
        config["resourceManagerEndpoint"] = "https://management.stack.example/"
    azure.on("management.stack.example", describe_stack)
    azure.on("login.stack.example", cloud.token_reply())
    azure.on(STACK_REGISTRY, cloud.registry_answers(host=STACK_REGISTRY))
    env = {"AZURE_ENVIRONMENT_FILEPATH": str(described)} if way != "resource manager" else {}
    answer = ask(azure, config, image=f"{STACK_REGISTRY}/app", env=env)
    assert set(answer.auth) == {"*.azurecr.*", STACK_REGISTRY}
    sent = azure.sent("login.stack.example")[0]
    audience = f"https://login.stack.example/{TENANT}/oauth2/v2.0/token"
    certified.check(sent.form["client_assertion"], CLIENT, audience)


def describe_stack(received: Received) -> Reply:
    """The resource manager's description of its clouds."""
    assert received.target == "/metadata/endpoints?api-version=2019-05-01"
    other = {"name": "Other", "authentication": {"loginEndpoint": "https://evil.example"}}
    entry = {
        "name": "AzureStackCloud",
        "authentication": {"loginEndpoint": "https://login.stack.example"},
        "suffixes": {"acrLoginServer": "azurecr.stack.example"},
    }
    return Reply(200, [other, entry])


def test_a_private_cloud_may_have_ad_fs(azure: Azure, tmp_path: Path) -> None:
    """Which knows RS256 and SHA-1 thumbprints, and has an endpoint of its own."""
    certified = make_certified()
    entry = {
        "name": "stack",
        "authentication": {"loginEndpoint": "https://adfs.stack.example/adfs"},
        "suffixes": {"acrLoginServer": "azurecr.stack.example"},
    }
    azure.on("management.stack.example", Reply(200, entry))
    azure.on("adfs.stack.example", cloud.token_reply())
    azure.on(STACK_REGISTRY, cloud.registry_answers(host=STACK_REGISTRY))
    config: dict[str, object] = {
        **CERTIFIED,
        "resourceManagerEndpoint": "https://management.stack.example",
        "aadClientCertPath": certified.write_pem(tmp_path),
    }
    assert ask(azure, config, image=f"{STACK_REGISTRY}/app").status == 0
    sent = azure.sent("adfs.stack.example")[0]
    assert sent.target == "/adfs/oauth2/token"
    audience = "https://adfs.stack.example/adfs/oauth2/token"
    certified.check(sent.form["client_assertion"], CLIENT, audience, is_old=True)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(404), "answered status 404"),
        (Reply(200, body=b"<html>"), "not valid JSON"),
        (Reply(200, [{"name": "Other"}]), "there is no cloud 'stack', only 'Other'"),
        (
            Reply(200, {"name": "stack", "authentication": {"loginEndpoint": "http://evil.example"}}),
            "https",
        ),
    ],
    ids=["404", "garbage", "another cloud", "no TLS"],
)
def test_a_resource_manager_that_describes_nothing_is_an_error(azure: Azure, reply: Reply, said: str) -> None:
    """Without a description nobody is asked for a token."""
    azure.on("management.stack.example", reply)
    config = {**MANAGED, "cloud": "stack", "resourceManagerEndpoint": "https://management.stack.example"}
    answer = ask(azure, config)
    assert answer.status == 1
    assert said in answer.stderr
    assert azure.imds_received == []


def test_a_private_cloud_without_a_description_says_what_to_set(azure: Azure) -> None:
    """The error names the variable."""
    answer = ask(azure, {**PRINCIPAL, "cloud": "AzureStackCloud"})
    assert answer.status == 1
    assert "AZURE_ENVIRONMENT_FILEPATH is not set" in answer.stderr


def test_backoff_and_user_agent_of_the_config_are_used(azure: Azure) -> None:
    """One retry means two attempts, and Entra hears the agent's name."""
    azure.on(ENTRA, Reply(503))
    config = {
        **MANAGED,
        "userAgent": "my-node",
        "cloudProviderBackoff": True,
        "cloudProviderBackoffRetries": 1,
        "cloudProviderBackoffDuration": 0.01,
    }
    annotations = {"kubernetes.azure.com/acr-client-id": CLIENT, "kubernetes.azure.com/acr-tenant-id": TENANT}
    assert ask(azure, config, token=cloud.pod_token(), annotations=annotations).status == 1
    assert [sent.headers["user-agent"] for sent in azure.sent(ENTRA)] == ["my-node"] * 2


@pytest.mark.parametrize(
    "text",
    [
        b'\xef\xbb\xbf{"USEMANAGEDIDENTITYEXTENSION": true, "TenantID": "%s"}' % TENANT.encode(),
        b"# a comment\nuseManagedIdentityExtension: yes\ntenantId: %s\nunknown: [1, {a: b}]\n"
        % TENANT.encode(),
    ],
    ids=["JSON", "YAML"],
)
def test_the_config_is_json_or_yaml(azure: Azure, text: bytes) -> None:
    """Keys are taken in any case."""
    serve_managed(azure)
    config = azure.folder / "other.json"
    config.write_bytes(text)
    answer = ask_image("acr", f"{REGISTRY}/app", args=[str(config)], env=azure.environ)
    assert set(answer.auth) == {"*.azurecr.*", REGISTRY}
