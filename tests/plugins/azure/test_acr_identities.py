"""keyferry-acr: the identity that it takes, that of a node or of a pod."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support import azure_cloud as cloud
from support.azure_acr import ANNOTATIONS, MANAGED, PRINCIPAL, STATIC, ask
from support.azure_certificates import PASSWORD, make_certified
from support.azure_cloud import CLIENT, ENTRA, REGISTRY, TENANT, Azure
from support.certificates import key_pem, make_certificate, make_key
from support.fake_cloud import Authority, Received, Reply
from support.reference import Answer, ask_image

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
    ("make", "said"),
    [
        (lambda: "", "no RSA private key"),
        (lambda: "clientmarksecret", "no RSA private key"),
        (lambda: key_pem(make_key("ec")) + make_certificate(make_key("ec")), "no RSA private key"),
        (
            lambda: key_pem(make_certified().key) + make_certificate(make_key("ec")),
            "no certificate of its private key",
        ),
    ],
    ids=["empty", "garbage", "elliptic", "another's certificate"],
)
def test_a_certificate_that_cannot_be_used_is_named(
    azure: Azure, tmp_path: Path, make: Callable[[], str], said: str
) -> None:
    """The error names the file and quotes none of it."""
    path = tmp_path / "client.pem"
    path.write_text(make())
    shown = ask(azure, {**CERTIFIED, "aadClientCertPath": str(path)}).failure
    assert said in shown
    assert str(path) in shown
    assert "PRIVATE KEY" not in shown


def test_a_wrong_certificate_password_is_not_shown(azure: Azure, tmp_path: Path) -> None:
    """Neither the right one nor the one given."""
    path = make_certified().write_pfx(tmp_path)
    said = ask(azure, {**CERTIFIED, "aadClientCertPath": path, "aadClientCertPassword": "wrongmark"}).failure
    cloud.never_shown(said, PASSWORD, "wrongmark")


def test_an_unknown_certificate_is_explained(azure: Azure, tmp_path: Path) -> None:
    """Entra does not know it, so it is to be uploaded; the assertion does not show."""
    azure.on(ENTRA, lambda received: cloud.refused(700027, text=received.form["client_assertion"]))
    said = ask(azure, {**CERTIFIED, "aadClientCertPath": make_certified().write_pem(tmp_path)}).failure
    assert "az ad app credential reset --cert" in said
    assert "eyJ" not in said


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
    shown = ask(azure, {**CERTIFIED, "aadFederatedTokenFile": str(path)}).failure
    assert said in shown
    assert str(path) in shown


@pytest.mark.parametrize("config", [{}, {"aadClientId": CLIENT}, {"aadClientSecret": "clientmarksecret"}])
def test_a_config_without_an_identity_says_what_to_set(azure: Azure, config: dict[str, object]) -> None:
    """The error names the keys of the config that would give one."""
    assert "useManagedIdentityExtension" in ask(azure, config).failure


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
    answer = ask(azure, {"cloud": name}, image=f"{registry}/app", token=pod, annotations=ANNOTATIONS)
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
    assert said in ask(azure, config).failure
    assert azure.imds_received == []


def test_a_private_cloud_without_a_description_says_what_to_set(azure: Azure) -> None:
    """The error names the variable."""
    assert (
        "AZURE_ENVIRONMENT_FILEPATH is not set"
        in ask(azure, {**PRINCIPAL, "cloud": "AzureStackCloud"}).failure
    )


@pytest.mark.parametrize("is_yaml", [False, True], ids=["JSON", "YAML"])
def test_backoff_and_user_agent_of_the_config_are_used(azure: Azure, *, is_yaml: bool) -> None:
    """One retry means two attempts, and Entra hears the agent's name."""
    azure.on(ENTRA, Reply(503))
    config = {
        **MANAGED,
        "userAgent": "my-node",
        "cloudProviderBackoff": True,
        "cloudProviderBackoffRetries": 1,
        "cloudProviderBackoffDuration": 0.01,
    }
    text = "".join(f"{key}: {value}\n" for key, value in config.items()) if is_yaml else json.dumps(config)
    assert ask_with(azure, text, token=cloud.pod_token(), annotations=ANNOTATIONS).status == 1
    assert [sent.headers["user-agent"] for sent in azure.sent(ENTRA)] == ["my-node"] * 2


def ask_with(
    azure: Azure, text: str, *, token: str = "", annotations: dict[str, str] | None = None
) -> Answer:
    """Run the plugin with this text as the node's config."""
    path = azure.folder / "config"
    path.write_text(text)
    image = f"{REGISTRY}/team/app"
    return ask_image("acr", image, args=[str(path)], env=azure.environ, token=token, annotations=annotations)


@pytest.mark.parametrize("config", [MANAGED, {"tenantId": "another"}], ids=["managed", "no managed identity"])
def test_a_service_account_logs_in_by_federation(azure: Azure, config: dict[str, object]) -> None:
    """Its token is exchanged in the annotations' tenant, and that tenant is told to the registry."""
    token, pod = cloud.registry_token(), cloud.pod_token()
    azure.on(ENTRA, cloud.federated_answers(pod))
    azure.on(REGISTRY, cloud.registry_answers(token))
    answer = ask(azure, config, token=pod, annotations=ANNOTATIONS)
    assert answer.auth[REGISTRY] == (cloud.ZERO_USER, token)


def test_compat_sends_the_configs_tenant_to_the_registry(azure: Azure) -> None:
    """As upstream, whatever the annotation says."""
    pod = cloud.pod_token()
    azure.on(ENTRA, cloud.federated_answers(pod))
    azure.on(REGISTRY, cloud.registry_answers(tenant="another"))
    config = {**MANAGED, "tenantId": "another"}
    assert ask(azure, config, "--compat", token=pod, annotations=ANNOTATIONS).status == 0


def test_compat_ignores_a_service_account_without_managed_identity(azure: Azure) -> None:
    """As upstream, the static credentials are handed out; but the annotations must be right."""
    pod = cloud.pod_token()
    answer = ask(azure, PRINCIPAL, "--compat", token=pod, annotations=ANNOTATIONS)
    assert answer.auth["*.azurecr.io"] == STATIC
    assert ask(azure, PRINCIPAL, "--compat", token=pod).status == 1
    assert azure.asked == []


@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
@pytest.mark.parametrize("name", [*ANNOTATIONS])
@pytest.mark.parametrize("value", [None, ""], ids=["missing", "empty"])
def test_a_service_account_needs_both_annotations(
    azure: Azure, args: tuple[str, ...], name: str, value: str | None
) -> None:
    """The error names the annotation that is missing or empty."""
    annotations = {key: text for key, text in ANNOTATIONS.items() if key != name}
    if value is not None:
        annotations[name] = value
    assert name in ask(azure, MANAGED, *args, token=cloud.pod_token(), annotations=annotations).failure
    assert azure.asked == []


def test_missing_annotations_matter_to_compat_even_for_foreign_images(azure: Azure) -> None:
    """As upstream, the identity is judged first; ours judges the image first."""
    image = "docker.io/library/busybox"
    assert ask(azure, MANAGED, token=cloud.pod_token(), image=image).auth == {}
    assert ask(azure, MANAGED, "--compat", token=cloud.pod_token(), image=image).status == 1


def test_a_missing_federated_credential_is_spelled_out(azure: Azure) -> None:
    """Issuer, subject and audience to enter are those of the token, which itself is not shown."""
    azure.on(
        ENTRA, cloud.refused(700213, "invalid_request", "No matching federated identity record found", 400)
    )
    said = ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS).failure
    assert "AADSTS700213" in said
    for part in (
        "https://oidc.test/",
        "system:serviceaccount:team:puller",
        "api://AzureADTokenExchange",
        CLIENT,
    ):
        assert part in said


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (cloud.refused(700016), "check the client ID and the tenant ID"),
        (cloud.refused(90002), "check the tenant ID"),
        (cloud.refused(999999), "code=999999"),
        (Reply(500), "try again later"),
        (Reply(401, body=b"podmark"), "check the tenant"),
        (Reply(429, {"error": "too_many"}, headers={"Retry-After": "600"}), "too many requests"),
        (Reply(200, body=b"entramarktoken"), "not a JSON object"),
        (Reply(302, headers={"Location": "https://evil.example/"}), "status 302"),
    ],
    ids=["application", "tenant", "number", "broken", "no JSON", "throttled", "garbage", "redirect"],
)
def test_a_refusal_of_entra_says_what_to_do(azure: Azure, reply: Reply, said: str) -> None:
    """Known numbers have advice, and nothing of the request shows; a redirect is not followed."""
    azure.on(ENTRA, reply)
    assert said in ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS).failure
    assert set(azure.asked) == {f"{ENTRA}:443"}


@pytest.mark.parametrize("number", [50076, 50079, 50126, 65001, 500011, 7000218])
def test_advice_names_no_flag_of_another_plugin(azure: Azure, number: int) -> None:
    """--login and --server-id belong to keyferry-aks."""
    azure.on(ENTRA, cloud.refused(number))
    answer = ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS)
    assert f"code={number}" in answer.stderr
    assert "--" not in answer.stderr


@pytest.mark.parametrize("number", [700213, 700016])
def test_the_pause_that_entra_asks_for_is_passed_on(azure: Azure, number: int) -> None:
    """Also with advice that is made for the token."""
    refused = cloud.refused(number)
    azure.on(ENTRA, Reply(429, refused.document, headers={"Retry-After": "600"}))
    answer = ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS)
    assert answer.stderr.endswith("keyferry-acr: retry after 600 s\n")


@pytest.mark.parametrize("pod", [cloud.pod_token(), "podmarkopaque"], ids=["JWT", "opaque"])
def test_an_echoed_assertion_is_masked(azure: Azure, pod: str) -> None:
    """What Entra quotes of the token is not passed on."""
    azure.on(
        ENTRA, lambda received: cloud.refused(50027, text=f"bad {received.form['client_assertion']} here")
    )
    assert "AADSTS50027: bad ******** here" in ask(azure, MANAGED, token=pod, annotations=ANNOTATIONS).failure


@pytest.mark.parametrize("tenant", ["../common", "a/b", "x?y", "t#", "t t", "..", "evil.example@x"])
def test_a_tenant_cannot_lead_elsewhere(azure: Azure, tenant: str) -> None:
    """An annotation is the pod author's, so what is no tenant is refused before anything is sent."""
    annotations = {**ANNOTATIONS, "kubernetes.azure.com/acr-tenant-id": tenant}
    assert (
        "is neither an ID nor a domain name"
        in ask(azure, MANAGED, token=cloud.pod_token(), annotations=annotations).failure
    )
    assert azure.asked == []


BINDING_ARGS = ("--ib-apiserver-ip=127.0.0.1", "--ib-default-tenant-id", TENANT)


def bindings_name(azure: Azure) -> str:
    """The endpoint's name, and the port it has here."""
    return f"bindings.test:{azure.environ['KEYFERRY_TEST_TLS_PORT']}"


@pytest.mark.parametrize("annotated", [True, False], ids=["annotation", "default"])
def test_an_identity_binding_logs_in(azure: Azure, *, annotated: bool) -> None:
    """The endpoint is dialled by address and known by name, never through a proxy."""
    pod, name = cloud.pod_token(), bindings_name(azure)

    def answer(received: Received) -> Reply:
        assert (received.method, received.target) == ("POST", "/")
        assert received.form == {
            "grant_type": "client_credentials",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": pod,
            "scope": f"{cloud.AUDIENCE}/.default",
            "client_id": CLIENT,
        }
        return Reply(200, {"access_token": cloud.ENTRA_TOKEN, "expires_in": 3600})

    azure.on(name, answer)
    azure.on(REGISTRY, cloud.registry_answers())
    args = [*BINDING_ARGS, "--ib-sni-name", name, "--ib-ca-file", azure.environ["SSL_CERT_FILE"]]
    args += [] if annotated else ["--ib-default-client-id", CLIENT]
    annotations = {"kubernetes.azure.com/acr-client-id": CLIENT} if annotated else None
    answer_ = ask(azure, {}, *args, token=pod, annotations=annotations)
    assert set(answer_.auth) == {"*.azurecr.*", REGISTRY}
    assert azure.asked == [f"{REGISTRY}:443"] * 2


def test_identity_bindings_trust_their_own_authority_alone(azure: Azure, tmp_path: Path) -> None:
    """A certificate that the system trusts is not enough."""
    other = tmp_path / "other"
    other.mkdir()
    args = [*BINDING_ARGS, "--ib-sni-name", bindings_name(azure), "--ib-default-client-id", CLIENT]
    answer = ask(azure, {}, *args, "--ib-ca-file", str(Authority(other).bundle), token=cloud.pod_token())
    assert answer.status == 1
    assert "certificate is not trusted" in answer.stderr
    empty = tmp_path / "empty.crt"
    empty.write_text("")
    for path, said in ((str(empty), "cannot be read as a bundle"), ("/nowhere/ca.crt", "does not exist")):
        answer = ask(azure, {}, *args, "--ib-ca-file", path, token=cloud.pod_token())
        assert said in answer.stderr


@pytest.mark.parametrize(
    ("token", "annotations", "said"),
    [
        ("", {}, "serviceAccountTokenAudience"),
        ("t", {"kubernetes.azure.com/acr-client-id": ""}, "there is no client ID"),
        ("t", {}, "there is no client ID"),
    ],
    ids=["no token", "empty client", "no client"],
)
def test_identity_bindings_need_a_token_and_a_client(
    azure: Azure, token: str, annotations: dict[str, str], said: str
) -> None:
    """The error names the setting of the kubelet, or the annotation."""
    args = ("--ib-sni-name=bindings.test", "--ib-apiserver-ip=127.0.0.1")
    assert said in ask(azure, {}, *args, token=token, annotations=annotations).failure


def test_a_refused_identity_binding_says_what_to_do(azure: Azure) -> None:
    """The advice is to bind the identity; the pod's token does not show."""
    name = bindings_name(azure)
    azure.on(
        name, lambda received: Reply(403, {"error": "denied", "error_description": received.body.decode()})
    )
    args = [*BINDING_ARGS, "--ib-sni-name", name, "--ib-default-client-id", CLIENT]
    pod = cloud.pod_token()
    said = ask(azure, {}, *args, "--ib-ca-file", azure.environ["SSL_CERT_FILE"], token=pod).failure
    assert "az aks identity-binding" in said
    assert pod.split(".")[1] not in said


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"tenantId": "t", "useManagedIdentityExtension": true, "userAssignedIdentityID": "007"}',
        '{"tenantId": "t", "useManagedIdentityExtension": true, "userAssignedIdentityID": "007", "other": [1]}',
        '{"TENANTID": "t", "usemanagedidentityextension": true, "UserAssignedIdentityId": "007"}',
        '{"tenantID": "old", "tenantId": "t", "useManagedIdentityExtension": "true", "userAssignedIdentityID": "007"}',
        "tenantId: t\nuseManagedIdentityExtension: yes\nuserAssignedIdentityID: 007\n",
        "---\ntenantId: 't'\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: \"007\"\nother: {a: [b]}\n",
        "{tenantId: t, useManagedIdentityExtension: true, userAssignedIdentityID: 007}",
        "x: &x [1, 2]\ny: [*x, *x]\ntenantId: t\nuseManagedIdentityExtension: on\nuserAssignedIdentityID: 007",
    ],
)
def test_the_same_config_in_many_spellings(azure: Azure, text: str) -> None:
    """Keys in any case, the last of two wins, numbers keep their spelling, unknown keys do not matter."""
    azure.on_imds(cloud.imds_answers(client_id="007"))
    azure.on(REGISTRY, cloud.registry_answers(tenant="t"))
    assert REGISTRY in ask_with(azure, text).auth


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (text, "the cloud config names no identity")
            for text in ("", " \n", "{}", "# nothing\n", "\ufeff", "null_key: ~")
        ),
        *(
            (text, "is neither a JSON object nor a YAML mapping")
            for text in (
                "clientmarksecret", "- a\n- b", "[1]", "7", '{"a": ', "a: b: c", "a\n\tb: c", "{" * 1_000,
            )
        ),
        ('{"aadClientSecret": ["hidden"]}', "aadClientSecret is an object or a list, expected a text"),
        ('{"aadClientSecret": 5}', "aadClientSecret is a number"),
        ('{"useManagedIdentityExtension": "hidden"}', "useManagedIdentityExtension is a text"),
        ('{"cloudProviderBackoffRetries": "hidden"}', "cloudProviderBackoffRetries is a text"),
        ('{"cloudProviderBackoffRetries": -1}', "expected a number that is not negative"),
        ("aadClientId: {hidden: x}", "aadClientId is an object or a list"),
        ("aadClientId: true", "aadClientId is true or false"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_do_is_explained_and_not_quoted(azure: Azure, text: str, said: str) -> None:
    """Empty, no mapping, or a value of the wrong kind: the key helps, the value may be a secret."""
    answer = ask_with(azure, text)
    assert (answer.status, answer.stdout) == (1, "")
    assert said in answer.stderr
    cloud.never_shown(answer.stderr, "hidden")


def test_a_bomb_of_aliases_does_not_go_off(azure: Azure) -> None:
    """Nothing below the top is built."""
    levels = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 30))
    merges = "".join(f"m{at}: &m{at} {{<<: [{', '.join([f'*m{at - 1}'] * 9)}]}}\n" for at in range(1, 30))
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, cloud.registry_answers(tenant="t"))
    text = f"a0: &a0 [x]\n{levels}m0: &m0 {{x: y}}\n{merges}tenantId: t\nuseManagedIdentityExtension: true\n"
    assert REGISTRY in ask_with(azure, text).auth
