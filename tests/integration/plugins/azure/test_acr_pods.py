"""The identity of a pod at a registry of Azure: federation and identity bindings."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import azure_cloud as cloud
from support.azure_acr import ANNOTATIONS, MANAGED, PRINCIPAL, STATIC, ask
from support.azure_cloud import CLIENT, ENTRA, REGISTRY, TENANT, Azure
from support.fake_cloud import Authority, Received, Reply


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
    answer = ask(azure, MANAGED, *args, token=cloud.pod_token(), annotations=annotations)
    assert answer.status == 1
    assert name in answer.stderr
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
    answer = ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS)
    assert answer.status == 1
    assert "AADSTS700213" in answer.stderr
    for part in (
        "https://oidc.test/",
        "system:serviceaccount:team:puller",
        "api://AzureADTokenExchange",
        CLIENT,
    ):
        assert part in answer.stderr


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
    answer = ask(azure, MANAGED, token=cloud.pod_token(), annotations=ANNOTATIONS)
    assert answer.status == 1
    assert said in answer.stderr
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
    answer = ask(azure, MANAGED, token=pod, annotations=ANNOTATIONS)
    assert answer.status == 1
    assert "AADSTS50027: bad ******** here" in answer.stderr


@pytest.mark.parametrize("tenant", ["../common", "a/b", "x?y", "t#", "t t", "..", "evil.example@x"])
def test_a_tenant_cannot_lead_elsewhere(azure: Azure, tenant: str) -> None:
    """An annotation is the pod author's, so what is no tenant is refused before anything is sent."""
    annotations = {**ANNOTATIONS, "kubernetes.azure.com/acr-tenant-id": tenant}
    answer = ask(azure, MANAGED, token=cloud.pod_token(), annotations=annotations)
    assert answer.status == 1
    assert "is neither an ID nor a domain name" in answer.stderr
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
    answer = ask(azure, {}, *args, token=token, annotations=annotations)
    assert answer.status == 1
    assert said in answer.stderr


def test_a_refused_identity_binding_says_what_to_do(azure: Azure) -> None:
    """The advice is to bind the identity; the pod's token does not show."""
    name = bindings_name(azure)
    azure.on(
        name, lambda received: Reply(403, {"error": "denied", "error_description": received.body.decode()})
    )
    args = [*BINDING_ARGS, "--ib-sni-name", name, "--ib-default-client-id", CLIENT]
    pod = cloud.pod_token()
    answer = ask(azure, {}, *args, "--ib-ca-file", azure.environ["SSL_CERT_FILE"], token=pod)
    assert answer.status == 1
    assert "az aks identity-binding" in answer.stderr
    assert pod.split(".")[1] not in answer.stderr
