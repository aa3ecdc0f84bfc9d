"""The registry plugin of Azure as the kubelet runs it: which images and identities get which credentials."""

from __future__ import annotations

import json

import pytest

from support import azure_cloud as cloud
from support.azure_acr import ANNOTATIONS, IMAGE, MANAGED, PRINCIPAL, STATIC, ask, serve_managed
from support.azure_cloud import CLIENT, REGISTRY, Azure
from support.fake_cloud import Reply
from support.reference import ask_image, image_request, run_plugin


@pytest.mark.parametrize(
    ("assigned", "identity"),
    [
        ("", {}),
        (CLIENT, {"client_id": CLIENT}),
        ("/Subscriptions/s/x", {"msi_res_id": "/Subscriptions/s/x"}),
        ("/subscriptions/s/x", {"msi_res_id": "/subscriptions/s/x"}),
    ],
    ids=["system", "client ID", "resource ID in any case", "resource ID"],
)
def test_the_machines_identity_logs_in_to_the_registry(
    azure: Azure, assigned: str, identity: dict[str, str]
) -> None:
    """The token goes from the metadata service to the registry, and the registry's comes out."""
    token = serve_managed(azure, **identity)
    answer = ask(azure, {**MANAGED, "userAssignedIdentityID": assigned})
    assert answer.auth == {"*.azurecr.*": ("", ""), REGISTRY: (cloud.ZERO_USER, token)}
    assert answer.document["cacheKeyType"] == "Registry"
    assert answer.document["cacheDuration"] == "1h0m0s"
    assert answer.stdout.count("\n") == 1


def test_the_metadata_service_is_never_asked_through_a_proxy(azure: Azure) -> None:
    """Only the registry is reached through the proxy that the environment names."""
    serve_managed(azure)
    assert ask(azure, MANAGED).status == 0
    assert len(azure.imds_received) == 1
    assert set(azure.asked) == {f"{REGISTRY}:443"}


def test_an_identity_that_the_machine_lacks_is_named(azure: Azure) -> None:
    """The error says which identity it is and how to give it to the machine."""
    azure.on_imds(Reply(400, {"error": "invalid_request", "error_description": "Identity not found"}))
    answer = ask(azure, {**MANAGED, "userAssignedIdentityID": CLIENT})
    assert answer.status == 1
    assert f"the user-assigned identity '{CLIENT}'" in answer.stderr
    assert "invalid_request: Identity not found" in answer.stderr
    assert "az vmss identity assign" in answer.stderr
    assert len(azure.imds_received) == 1


@pytest.mark.parametrize("tenant", ["../other", "a/b", "a?b=c", "a b"])
def test_the_managed_identitys_tenant_is_an_id_or_a_domain_name(azure: Azure, tenant: str) -> None:
    """As every other tenant; nothing is sent with it."""
    answer = ask(azure, {**MANAGED, "tenantId": tenant})
    assert answer.status == 1
    assert "is neither an ID nor a domain name" in answer.stderr
    assert not azure.imds_received
    assert not azure.asked


def test_a_busy_metadata_service_is_asked_again(azure: Azure) -> None:
    """What is known to pass is tried again, also the 404 of a service that is being updated."""
    token = serve_managed(azure)
    azure.on_imds(
        Reply(404), Reply(429, headers={"Retry-After": "1"}), Reply(is_closed=True), cloud.imds_answers()
    )
    assert ask(azure, MANAGED).auth[REGISTRY] == (cloud.ZERO_USER, token)
    assert len(azure.imds_received) == 4


def test_the_pause_that_the_metadata_service_asks_for_is_passed_on(azure: Azure) -> None:
    """The node agent keeps to it."""
    azure.on_imds(Reply(429, headers={"Retry-After": "600"}))
    answer = ask(azure, MANAGED)
    assert "the service may be busy" in answer.stderr
    assert answer.stderr.endswith("keyferry-acr: retry after 600 s\n")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, body=b"<html>sign in, entramarktoken</html>"),
        Reply(200, {"access_token": ""}),
        Reply(200, {"access_token": ["entramarktoken"]}),
        Reply(200, {"access_token": "entramarktoken\r\nX: y"}),
        Reply(200, body=b'{"access_token": "entramarktoken"'),
        Reply(200, body=b"[" * 100_000),
        Reply(raw=b"entramarktoken\r\n\r\n"),
        Reply(403, {"error": "denied", "error_description": "bearer entramarktoken"}),
    ],
    ids=["page", "empty", "list", "line break", "cut", "deep", "no HTTP", "denied"],
)
def test_garbage_from_the_metadata_service_is_refused_and_not_quoted(azure: Azure, reply: Reply) -> None:
    """Whatever it answers in place of a token ends in a message without it."""
    azure.on_imds(reply)
    quick = {
        "cloudProviderBackoff": True,
        "cloudProviderBackoffRetries": 1,
        "cloudProviderBackoffDuration": 0.1,
    }
    answer = ask(azure, MANAGED | quick)
    assert answer.status == 1
    assert "http://0.0.0.0:" in answer.stderr


def test_static_credentials_of_a_service_principal_need_no_network(azure: Azure) -> None:
    """They are handed out for the registry that is asked for, and for no other."""
    answer = ask(azure, PRINCIPAL)
    assert answer.auth == {"*.azurecr.*": ("", ""), REGISTRY: STATIC}
    assert azure.asked == []


def test_compat_hands_static_credentials_out_for_all_of_azure(azure: Azure) -> None:
    """As upstream, five entries."""
    answer = ask(azure, PRINCIPAL, "--compat")
    zones = {f"*.azurecr.{zone}": STATIC for zone in ("io", "cn", "de", "us")}
    assert answer.auth == {"*.azurecr.*": ("", ""), **zones}
    assert answer.document["cacheDuration"] == "1h0m0s"


def test_static_credentials_follow_a_mirror(azure: Azure) -> None:
    """The kubelet asks for the source's name, so that name must have the login; with compat it has none."""
    mirror = f"--registry-mirror=mcr.microsoft.com:{REGISTRY}"
    ours = ask(azure, PRINCIPAL, mirror, image="mcr.microsoft.com/oss/app")
    assert ours.auth == {"*.azurecr.*": ("", ""), REGISTRY: STATIC, "mcr.microsoft.com": STATIC}
    theirs = ask(azure, PRINCIPAL, mirror, "--compat", image="mcr.microsoft.com/oss/app")
    assert "mcr.microsoft.com" not in theirs.auth


@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
def test_an_image_from_elsewhere_has_no_credentials(azure: Azure, args: tuple[str, ...]) -> None:
    """The answer is an empty success, without a request to anyone."""
    answer = ask(azure, MANAGED, *args, image="docker.io/library/busybox")
    assert answer.auth == {}
    assert answer.document["cacheDuration"] == "0s"
    assert azure.asked == []
    assert azure.imds_received == []


@pytest.mark.parametrize(
    "image",
    [
        "myreg.azurecr.io.evil.example/app",
        "evil.example/myreg.azurecr.io/app",
        "myreg.azurecr.io@evil.example/app",
    ],
)
def test_a_name_that_only_looks_like_a_registry_gets_nothing(azure: Azure, image: str) -> None:
    """A registry's name must be all of the host: nothing after it, nothing before it."""
    assert ask(azure, MANAGED, image=image).auth == {}
    assert azure.imds_received == []


def test_compat_takes_a_name_followed_by_more_for_the_registry(azure: Azure) -> None:
    """As upstream, where the suffix is looked for anywhere in the image."""
    serve_managed(azure)
    answer = ask(azure, MANAGED, "--compat", image="myreg.azurecr.io.evil.example/app")
    assert set(answer.auth) == {"*.azurecr.*", REGISTRY}


def test_a_port_in_the_image_stands_in_the_key(azure: Azure) -> None:
    """The kubelet matches ports exactly, so the key has the image's; with compat it has none."""
    token = serve_managed(azure)
    ours = ask(azure, MANAGED, image=f"{REGISTRY}:443/app")
    assert ours.auth == {"*.azurecr.*": ("", ""), f"{REGISTRY}:443": (cloud.ZERO_USER, token)}
    theirs = ask(azure, MANAGED, "--compat", image=f"{REGISTRY}:443/app")
    assert set(theirs.auth) == {"*.azurecr.*", REGISTRY}


@pytest.mark.parametrize("with_bindings", [False, True], ids=["token", "bindings"])
def test_a_mirrored_image_uses_the_machines_identity(azure: Azure, *, with_bindings: bool) -> None:
    """A mirror is the node's affair; the source's name gets the login too."""
    token = serve_managed(azure)
    args = ["--registry-mirror", f"mcr.microsoft.com: {REGISTRY}, broken"]
    args += ["--ib-sni-name=bindings.test", "--ib-apiserver-ip=127.0.0.1"] if with_bindings else []
    image = "mcr.microsoft.com/oss/app"
    answer = ask(azure, MANAGED, *args, image=image, token=cloud.pod_token(), annotations=ANNOTATIONS)
    login = (cloud.ZERO_USER, token)
    assert answer.auth == {"*.azurecr.*": ("", ""), REGISTRY: login, "mcr.microsoft.com": login}
    assert "'broken' is ignored" in answer.stderr


def test_a_mirror_does_not_reach_past_its_host(azure: Azure) -> None:
    """A longer host name is another registry."""
    args = ("-r", f"mcr.microsoft.com:{REGISTRY}")
    image = "mcr.microsoft.com.evil.example/app"
    assert ask(azure, MANAGED, *args, image=image).auth == {}
    token = serve_managed(azure)
    login = (cloud.ZERO_USER, token)
    answer = ask(azure, MANAGED, *args, "--compat", image="mcr.microsoft.com/app")
    assert answer.auth == {"*.azurecr.*": ("", ""), REGISTRY: login, "mcr.microsoft.com": login}


@pytest.mark.parametrize(
    "args",
    [
        ("--ib-sni-name=https://x", "--ib-apiserver-ip=127.0.0.1"),
        ("--ib-sni-name=http://x", "--ib-apiserver-ip=127.0.0.1"),
        ("--ib-sni-name=x",),
        ("--ib-apiserver-ip=127.0.0.1",),
        ("--ib-default-client-id=x",),
        ("--ib-default-tenant-id=x",),
        ("--ib-sni-name=x", "--ib-apiserver-ip=999.999.999.999"),
        ("--ib-sni-name=x", "--ib-apiserver-ip=1::2::3"),
        ("another.json",),
        ("--unheard-of",),
    ],
)
def test_flags_that_do_not_fit_are_refused(azure: Azure, args: tuple[str, ...]) -> None:
    """Before anything is asked of anyone."""
    answer = ask(azure, MANAGED, *args)
    assert answer.status != 0
    assert azure.imds_received == []


@pytest.mark.parametrize("api_version", ["v1", "foo.k8s.io/v1"])
def test_requests_are_judged_as_the_kubelet_writes_them(azure: Azure, api_version: str) -> None:
    """Another kind or group, or no image, is refused."""
    config = azure.config(**PRINCIPAL)
    good = json.loads(image_request(IMAGE))
    for changes in ({"kind": "CredentialProviderFoo"}, {"apiVersion": api_version}, {"image": ""}):
        answer = run_plugin("acr", json.dumps(good | changes), [config], {})
        assert (answer.status, answer.stdout) == (1, "")


def test_compat_takes_v1_alone(azure: Azure) -> None:
    """As upstream; ours answers older kubelets in their version."""
    config = azure.config(**PRINCIPAL)
    ours = ask_image("acr", IMAGE, args=[config], version="v1beta1")
    assert str(ours.document["apiVersion"]).endswith("/v1beta1")
    assert ask_image("acr", IMAGE, args=[config, "--compat"], version="v1beta1").status == 1
