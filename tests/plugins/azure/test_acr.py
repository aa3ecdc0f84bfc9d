"""keyferry-acr run as a kubelet runs it: registries, the exchange of tokens, and mirrors."""

from __future__ import annotations

import json

import pytest

from keyferry._net.challenge import ChallengeError
from keyferry_plugins.acr import PROVIDER_BACKOFF
from keyferry_plugins.azure.registry import (
    apply_mirror,
    find_login_server,
    find_login_server_compat,
    parse_mirrors,
    read_bearer,
)
from support import azure_cloud as cloud
from support.azure_acr import ANNOTATIONS, IMAGE, MANAGED, PRINCIPAL, STATIC, ask, serve_managed
from support.azure_cloud import CLIENT, REGISTRY, Azure
from support.fake_cloud import Received, Reply
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


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200),
        Reply(401),
        Reply(401, headers={"WWW-Authenticate": 'Auth realm="https://myreg.azurecr.io/t",service="s"'}),
        Reply(401, headers={"WWW-Authenticate": 'Bearer realm="",service="s"'}),
        Reply(401, headers={"WWW-Authenticate": 'Bearer realm="https://myreg.azurecr.io/t",service=""'}),
        Reply(401, headers={"WWW-Authenticate": 'Bearer realm="https://myreg.azurecr.io/t'}),
        Reply(404, body=b"entramarktoken"),
    ],
    ids=["200", "no header", "scheme", "no realm", "no service", "open quote", "404"],
)
@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
def test_a_registry_without_a_proper_challenge_gets_no_token(
    azure: Azure, reply: Reply, args: tuple[str, ...]
) -> None:
    """Nothing is sent to it beyond the first, empty-handed request."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, reply)
    answer = ask(azure, MANAGED, *args)
    assert answer.status == 1
    assert f"https://{REGISTRY}/v2/" in answer.stderr
    assert [sent.method for sent in azure.sent(REGISTRY)] == ["GET"]


@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
@pytest.mark.parametrize(
    "realm",
    [
        "http://myreg.azurecr.io/oauth2/token",
        "https://evil.example/oauth2/token",
        "https://elsewhere.azurecr.io/oauth2/token",
        "https://myreg.azurecr.io.evil.example/oauth2/token",
        "https://myreg.azurecr.io@evil.example/oauth2/token",
        "https://user:entramarktoken@myreg.azurecr.io/oauth2/token",
        "https://169.254.169.254/oauth2/token",
        "https://[::ffff:169.254.169.254]/oauth2/token",
        "https://myreg.azurecr.io:8443/oauth2/token",
        "ftp://myreg.azurecr.io/",
        "myreg.azurecr.io",
        "https:///oauth2/token",
    ],
)
def test_the_entra_token_goes_to_the_registry_alone(azure: Azure, realm: str, args: tuple[str, ...]) -> None:
    """A challenge cannot lead it to another host or port, out of TLS, or to a metadata service."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, cloud.challenge(realm=realm))
    answer = ask(azure, MANAGED, *args)
    assert answer.status == 1
    assert "realm" in answer.stderr
    assert set(azure.asked) == {f"{REGISTRY}:443"}
    assert [sent.method for sent in azure.sent(REGISTRY)] == ["GET"]


def test_the_realm_of_a_region_is_the_registrys_own(azure: Azure) -> None:
    """A region's name may point to the name of the same registry."""
    region = "myreg.eastus.geo.azurecr.io"
    azure.on_imds(cloud.imds_answers())
    azure.on(region, cloud.challenge(REGISTRY))
    azure.on(REGISTRY, cloud.registry_answers())
    answer = ask(azure, MANAGED, image=f"{region}/app")
    assert set(answer.auth) == {"*.azurecr.*", region}


def test_two_challenge_headers_are_one_too_many_for_compat(azure: Azure) -> None:
    """Ours takes the one that is Bearer, and refuses two of them."""
    token = cloud.registry_token()
    answers = cloud.registry_answers(token)
    bearer = f'WWW-Authenticate: Bearer realm="https://{REGISTRY}/t",service="{REGISTRY}"\r\n'.encode()

    def head(*lines: bytes) -> Reply:
        return Reply(raw=b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n" + b"".join(lines) + b"\r\n")

    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, head(b'WWW-Authenticate: Basic realm="x"\r\n', bearer), answers)
    assert ask(azure, MANAGED).auth[REGISTRY] == (cloud.ZERO_USER, token)
    azure.on(REGISTRY, head(b'WWW-Authenticate: Basic realm="x"\r\n', bearer))
    assert "2 WWW-Authenticate headers" in ask(azure, MANAGED, "--compat").stderr
    azure.on(REGISTRY, head(bearer, bearer))
    assert "2 Bearer challenges" in ask(azure, MANAGED).stderr


@pytest.mark.parametrize(
    ("status", "document", "said"),
    [
        (
            401,
            {"errors": [{"code": "UNAUTHORIZED", "message": "no entramarktoken"}]},
            "UNAUTHORIZED: no ********",
        ),
        (403, {"errors": "registrymark"}, "the role AcrPull on the registry myreg.azurecr.io"),
        (404, None, "refused with status 404"),
        (500, {"errors": [["registrymark"]]}, "try again"),
        (200, {"refresh_token": 7}, "without a usable 'refresh_token'"),
        (200, {"refresh_token": "registrymark\n"}, "without a usable 'refresh_token'"),
        (200, ["registrymark"], "not a JSON object"),
    ],
)
def test_a_refused_exchange_says_what_to_grant(
    azure: Azure, status: int, document: object, said: str
) -> None:
    """The role and the identity are named, and of the answer only what is known to be no secret."""
    azure.on_imds(cloud.imds_answers())

    def answer(received: Received) -> Reply:
        return cloud.challenge() if received.method == "GET" else Reply(status, document)

    azure.on(REGISTRY, answer)
    asked = ask(azure, MANAGED)
    assert asked.status == 1
    assert said in asked.stderr
    if status in (401, 403):
        assert "grant the system-assigned identity the role AcrPull" in asked.stderr


@pytest.mark.parametrize(
    ("lifetime", "least", "most"), [(10800, 3600, 3600), (1900, 1500, 1600), (200, 0, 0), (-50, 0, 0)]
)
def test_nothing_is_kept_longer_than_it_lives(azure: Azure, lifetime: int, least: int, most: int) -> None:
    """An hour, or what is left of the registry's token less a margin; with compat always an hour."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, cloud.registry_answers(cloud.registry_token(lifetime)))
    kept = ask(azure, MANAGED).document["cacheDuration"]
    assert least <= seconds_of(str(kept)) <= most
    assert ask(azure, MANAGED, "--compat").document["cacheDuration"] == "1h0m0s"


def seconds_of(text: str) -> int:
    """The seconds of a duration that has no fractions."""
    hours, _, rest = text.rpartition("h")
    minutes, _, seconds = rest.rpartition("m")
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds.removesuffix("s"))


def test_an_attempt_that_hangs_is_given_up(azure: Azure) -> None:
    """An endless answer is cut at a size, not read until the kubelet kills the plugin."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, Reply(401, is_endless=True))
    answer = ask(azure, MANAGED)
    assert answer.status == 1
    assert "longer than" in answer.stderr


STACK = ".azurecr.my.cloud"
TABLE = [
    ("invalidImage", ""),
    ("docker.io/library/busybox:latest", ""),
    ("foo.azurecr.io/bar/image:version", "foo.azurecr.io"),
    ("foo.azurecr.cn/bar/image:version", "foo.azurecr.cn"),
    ("foo.azurecr.de/bar/image:version", "foo.azurecr.de"),
    ("foo.azurecr.us/bar/image:version", "foo.azurecr.us"),
    ("foo.azurecr.my.cloud/bar/image:version", "foo.azurecr.my.cloud"),
    ("foo.azurecr.us/foo.azurecr.io/bar/image", "foo.azurecr.us"),
    ("foo.azurecr.io.example/bar/image", ""),
    ("docker/foo.azurecr.io/bar/image", ""),
    ("foo.azurecr.io", "foo.azurecr.io"),
    ("foo.azurecr.io.azurecr.cn", ""),
    ("foo-azurecr-io.azurecr.cn", ""),
]
PORTS = [
    ("443", True),
    ("00443", True),
    ("0", False),
    ("65536", False),
    ("\u00b2", False),
    (5000 * "9", False),
]


@pytest.mark.parametrize(("image", "server"), TABLE)
def test_both_ways_agree_where_the_suffix_is_another(image: str, server: str) -> None:
    """The recorded cases of upstream, in a private cloud."""
    assert find_login_server(image, STACK) == server
    assert find_login_server_compat(image, STACK) == server


@pytest.mark.parametrize(("port", "is_one"), PORTS)
def test_a_port_is_a_number_of_a_port(port: str, is_one: bool) -> None:
    assert find_login_server(f"foo.azurecr.io:{port}/a", STACK) == (
        f"foo.azurecr.io:{port}" if is_one else ""
    )


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("my-reg.azurecr.io/x", "my-reg.azurecr.io", "my-reg.azurecr.io"),
        ("reg.eastus.geo.azurecr.io/x", "reg.eastus.geo.azurecr.io", "reg.eastus.geo.azurecr.io"),
        ("reg.azurecr.io:443/x", "reg.azurecr.io:443", "reg.azurecr.io"),
        ("reg.azurecr.io.example/x", "", "reg.azurecr.io"),
        ("docker/reg.azurecr.io/x", "", ""),
        ("notazurecr.io/x", "", ""),
        ("my-reg.azurecr.cn/x", "", ""),
        ("azurecr.io/x", "", ""),
        (".azurecr.io/x", "", ""),
        ("-a.azurecr.io/x", "", ""),
        ("a..azurecr.io/x", "", ""),
        ("reg.azurecr.io:0/x", "", "reg.azurecr.io"),
        ("reg.azurecr.io:x/x", "", "reg.azurecr.io"),
        ("u@reg.azurecr.io/x", "", ""),
        ("r\u00e9g.azurecr.io/x", "", ""),
        ("REG.AZURECR.IO/x", "REG.AZURECR.IO", ""),
        ("evil.example#.azurecr.io/x", "", ""),
        ("evil.example/x.azurecr.io/app", "", ""),
        ("evil.example:443/x.azurecr.io/app", "", ""),
        ("my-reg.azurecr.us:443/x.azurecr.io/app", "", ""),
        ("reg.azurecr.io./x", "", "reg.azurecr.io"),
    ],
)
def test_in_the_public_cloud_the_host_has_to_be_a_host(image: str, ours: str, theirs: str) -> None:
    """Ours judges what stands before the first slash, all of it; upstream's way looks for the suffix anywhere.

    What upstream finds and is no registry of Azure's counts in neither: a token would go to somebody else.
    """
    assert find_login_server(image, "azurecr.io") == ours
    assert find_login_server_compat(image, "azurecr.io") == theirs


def test_without_a_suffix_only_the_known_zones_count() -> None:
    """An empty suffix does not match everything."""
    for find in (find_login_server, find_login_server_compat):
        assert find("evil.example/x", "") == ""
        assert find("foo.azurecr.io/x", "") == "foo.azurecr.io"
    assert find_login_server("evil.example/x", ".") == ""


@pytest.mark.parametrize(
    ("text", "mirrors", "refused"),
    [
        ("", {}, ()),
        ("aaa:bbb", {"aaa": "bbb"}, ()),
        ("aaa:bbb,ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa: bbb, ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa,b:c:d,:e,f:,g:h", {"g": "h"}, ("aaa", "b:c:d", ":e", "f:")),
    ],
)
def test_pairs_are_read_and_others_passed_over(
    text: str, mirrors: dict[str, str], refused: tuple[str, ...]
) -> None:
    """Blanks do not count."""
    assert parse_mirrors(text) == (mirrors, refused)


def test_the_source_is_replaced_by_the_target() -> None:
    """Once, at the beginning."""
    found = apply_mirror({"mcr.microsoft.com": "abc.azurecr.io"}, "mcr.microsoft.com/bar/mcr.microsoft.com")
    assert found == ("abc.azurecr.io/bar/mcr.microsoft.com", "mcr.microsoft.com")


MIRRORS = {"a.io": "x.azurecr.io", "a.io/team": "y.azurecr.io/team", "a.io/te": "z.azurecr.io"}


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("a.io/other", "x.azurecr.io/other", "x.azurecr.io/other"),
        ("a.io/team/app", "y.azurecr.io/team/app", "x.azurecr.io/team/app"),
        ("a.io/team", "y.azurecr.io/team", "x.azurecr.io/team"),
        ("a.io/teams/app", "x.azurecr.io/teams/app", "x.azurecr.io/teams/app"),
        ("a.io.evil.example/app", "a.io.evil.example/app", "x.azurecr.io.evil.example/app"),
        ("b.io/app", "b.io/app", "b.io/app"),
    ],
)
def test_the_longest_source_wins_at_a_boundary(image: str, ours: str, theirs: str) -> None:
    """Whatever the order; upstream takes any beginning of the text, and here the first."""
    assert apply_mirror(MIRRORS, image)[0] == ours
    assert apply_mirror(dict(reversed(MIRRORS.items())), image)[0] == ours
    assert apply_mirror(MIRRORS, image, is_compat=True)[0] == theirs


GOOD = 'Bearer realm="https://r/t",service="r"'


@pytest.mark.parametrize(
    ("header", "parameters"),
    [
        (GOOD, {"realm": "https://r/t", "service": "r"}),
        ('bearer REALM = "https://r/t" ,  Service= "r"', {"realm": "https://r/t", "service": "r"}),
        ("BEARER realm=https://r/t, service=r", {"realm": "https://r/t", "service": "r"}),
        ('Bearer realm="a,b",service="r"', {"realm": "a,b", "service": "r"}),
        ('Bearer realm="a\\"b\\\\",service="s"', {"realm": 'a"b\\', "service": "s"}),
        (
            'Bearer realm="r",service="s",error="invalid_token"',
            {"realm": "r", "service": "s", "error": "invalid_token"},
        ),
        ('Bearer realm="r",service=s, Basic realm="x"', {"realm": "r", "service": "s"}),
        ('Bearer realm="r"service="s"', {"realm": "r", "service": "s"}),
    ],
)
def test_parameters_are_read(header: str, parameters: dict[str, str]) -> None:
    """In quotes or without, in any case, with blanks."""
    assert read_bearer([header]) == parameters
    assert read_bearer([header], is_compat=True) == parameters


@pytest.mark.parametrize(
    "header",
    [
        'Bearer realm="x',
        'Bearer realm="x\\',
        'Bearer realm="a",realm="b",service="s"',
        "Bearer",
        "Bearer ,,,",
        'Bearer realm="a",service=""',
    ],
)
def test_what_can_be_taken_in_two_ways_or_is_not_complete_is_refused(header: str) -> None:
    """An open quote, two values for one name, and none."""
    with pytest.raises(ChallengeError):
        read_bearer([header])


@pytest.mark.parametrize("header", ['Basic realm="x"', 'Basic realm="x', "", "Bearerrealm=x"])
def test_another_scheme_is_none_of_ours(header: str) -> None:
    """Even with a fault in it."""
    assert read_bearer([header, GOOD])["service"] == "r"
    with pytest.raises(ChallengeError, match="it has no Bearer challenges"):
        read_bearer([header])


@pytest.mark.parametrize(
    "headers",
    [[], ['Basic realm="x"'], [GOOD, GOOD], ['Bearer service="r"'], ['Bearer realm="https://r/t"']],
)
def test_there_is_one_challenge_with_realm_and_service(headers: list[str]) -> None:
    """Anything else is an error, whichever way."""
    for is_compat in (False, True):
        with pytest.raises(ChallengeError):
            read_bearer(headers, is_compat=is_compat)


def test_waits_grow_as_upstreams_do() -> None:
    """With --compat some 5, 15 and 35 seconds, and then no more attempts."""
    assert PROVIDER_BACKOFF.attempts == 4
    for number, full in ((1, 5.0), (2, 15.0), (3, 35.0)):
        assert all(0.8 * full <= PROVIDER_BACKOFF.delay(number) <= 1.2 * full for _ in range(50))
    assert PROVIDER_BACKOFF.delay(9) == 60.0
