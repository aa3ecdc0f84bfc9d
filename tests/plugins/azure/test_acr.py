"""keyferry-acr run as a kubelet runs it: registries, the exchange of tokens, and mirrors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry_plugins.acr import PROVIDER_BACKOFF
from support import azure_cloud as cloud
from support.azure_acr import ANNOTATIONS, IMAGE, MANAGED, PRINCIPAL, STATIC, ask, serve_managed
from support.azure_cloud import CLIENT, REGISTRY, Azure
from support.fake_cloud import Received, Reply
from support.reference import ask_image


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
    said = ask(azure, {**MANAGED, "userAssignedIdentityID": CLIENT}).failure
    assert f"the user-assigned identity '{CLIENT}'" in said
    assert "invalid_request: Identity not found" in said
    assert "az vmss identity assign" in said
    assert len(azure.imds_received) == 1


@pytest.mark.parametrize("tenant", ["../other", "a/b", "a?b=c", "a b"])
def test_the_managed_identitys_tenant_is_an_id_or_a_domain_name(azure: Azure, tenant: str) -> None:
    """As every other tenant; nothing is sent with it."""
    assert "is neither an ID nor a domain name" in ask(azure, {**MANAGED, "tenantId": tenant}).failure
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
    assert "http://0.0.0.0:" in ask(azure, MANAGED | quick).failure


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


@pytest.mark.parametrize("image", ["myreg.azurecr.io.evil.example/app", f"{REGISTRY}:443/app"])
def test_compat_takes_a_name_followed_by_more_for_the_registry(azure: Azure, image: str) -> None:
    """As upstream, where the suffix is looked for anywhere in the image."""
    serve_managed(azure)
    assert set(ask(azure, MANAGED, "--compat", image=image).auth) == {"*.azurecr.*", REGISTRY}


def test_a_port_in_the_image_stands_in_the_key(azure: Azure) -> None:
    """The kubelet matches ports exactly, so the key has the image's."""
    token = serve_managed(azure)
    answer = ask(azure, MANAGED, image=f"{REGISTRY}:443/app")
    assert answer.auth == {"*.azurecr.*": ("", ""), f"{REGISTRY}:443": (cloud.ZERO_USER, token)}


@pytest.mark.parametrize("with_bindings", [False, True], ids=["token", "bindings"])
def test_a_mirrored_image_uses_the_machines_identity(azure: Azure, *, with_bindings: bool) -> None:
    """A mirror is the node's affair; the source's name gets the login too."""
    token = serve_managed(azure)
    args = ["--registry-mirror", f"mcr.microsoft.com: {REGISTRY}"]
    args += ["--ib-sni-name=bindings.test", "--ib-apiserver-ip=127.0.0.1"] if with_bindings else []
    image = "mcr.microsoft.com/oss/app"
    answer = ask(azure, MANAGED, *args, image=image, token=cloud.pod_token(), annotations=ANNOTATIONS)
    login = (cloud.ZERO_USER, token)
    assert answer.auth == {"*.azurecr.*": ("", ""), REGISTRY: login, "mcr.microsoft.com": login}
    if not with_bindings:
        assert ask(azure, MANAGED, *args, "--compat", image=image).auth == answer.auth


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


def test_compat_takes_v1_alone(azure: Azure) -> None:
    """As upstream; ours answers older kubelets in their version."""
    config = azure.config(**PRINCIPAL)
    ours = ask_image("acr", IMAGE, args=[config], version="v1beta1")
    assert str(ours.document["apiVersion"]).endswith("/v1beta1")
    assert ask_image("acr", IMAGE, args=[config, "--compat"], version="v1beta1").status == 1


REALM = f"https://{REGISTRY}/oauth2/token"
GOOD = f'Bearer realm="{REALM}",service="{REGISTRY}"'


def challenges(*headers: str) -> Reply:
    """A registry's response with these challenges."""
    lines = "".join(f"WWW-Authenticate: {header}\r\n" for header in headers)
    return Reply(raw=f"HTTP/1.1 401 No\r\nContent-Length: 0\r\n{lines}\r\n".encode())


@pytest.mark.parametrize(
    "header",
    [
        f'bearer REALM = "{REALM}" ,  Service= "{REGISTRY}"',
        f"BEARER realm={REALM}, service={REGISTRY}",
        f'Bearer realm="{REALM},a",service="{REGISTRY}"',
        f'Bearer realm="{REALM}?a=\\"b\\\\",service="myreg\\.azurecr.io"',
        f'{GOOD},error="invalid_token"',
        f'Bearer realm="{REALM}",service={REGISTRY}, Basic realm="x"',
        f'Bearer realm="{REALM}"service="{REGISTRY}"',
    ],
)
@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
def test_a_challenge_is_read_however_it_is_written(azure: Azure, header: str, args: tuple[str, ...]) -> None:
    """In quotes or without, in any case, with blanks."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, challenges(header), cloud.registry_answers())
    assert REGISTRY in ask(azure, MANAGED, *args).auth


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200),
        Reply(404, body=b"entramarktoken"),
        challenges(),
        challenges(f'Auth realm="{REALM}",service="s"'),
        challenges(f'Basic realm="{REALM}'),
        challenges(f"Bearerrealm={REALM},service=s"),
        challenges("Bearer"),
        challenges("Bearer ,,,"),
        challenges('Bearer realm="",service="s"'),
        challenges('Bearer service="s"'),
        challenges(f'Bearer realm="{REALM}",service=""'),
        challenges(f'Bearer realm="{REALM}"'),
        challenges(f'Bearer realm="{REALM}'),
        challenges(f'Bearer realm="{REALM}\\'),
        challenges(f'Bearer realm="{REALM}",realm="{REALM}",service="{REGISTRY}"'),
        challenges(GOOD, GOOD),
    ],
    ids=[
        "200", "404", "no header", "scheme", "Basic", "no blank", "bare", "commas", "empty realm", "no realm",
        "empty service", "no service", "open quote", "open escape", "realm twice", "two",
    ],
)  # fmt: skip
@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
def test_a_registry_without_a_proper_challenge_gets_no_token(
    azure: Azure, reply: Reply, args: tuple[str, ...]
) -> None:
    """Nothing is sent to it beyond the first, empty-handed request."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, reply)
    assert f"https://{REGISTRY}/v2/" in ask(azure, MANAGED, *args).failure
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
    assert "realm" in ask(azure, MANAGED, *args).failure
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


@pytest.mark.parametrize("other", ['Basic realm="x"', 'Basic realm="x', ""])
def test_two_challenge_headers_are_one_too_many_for_compat(azure: Azure, other: str) -> None:
    """Ours takes the one that is Bearer, even with a fault in another."""
    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, challenges(other, GOOD), cloud.registry_answers())
    assert REGISTRY in ask(azure, MANAGED).auth
    azure.on(REGISTRY, challenges(other, GOOD))
    assert "2 WWW-Authenticate headers" in ask(azure, MANAGED, "--compat").failure


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
    assert "longer than" in ask(azure, MANAGED).failure


def static_keys(folder: Path, image: str, *args: str, suffix: str = "") -> set[str]:
    """What a service principal's login is handed out for; nobody is asked. With *suffix* in a private cloud."""
    config, stack = folder / "azure.json", folder / "stack.json"
    config.write_text(json.dumps(PRINCIPAL | ({"cloud": "AzureStackCloud"} if suffix else {})))
    stack.write_text(json.dumps({"containerRegistryDNSSuffix": suffix}))
    env = {"AZURE_ENVIRONMENT_FILEPATH": str(stack)}
    answer = ask_image("acr", image, args=[str(config), *args], env=env)
    return {key for key, login in answer.auth.items() if login == STATIC}


@pytest.mark.parametrize(
    ("image", "server"),
    [
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
    ],
)
def test_both_ways_agree_where_the_suffix_is_another(tmp_path: Path, image: str, server: str) -> None:
    """The recorded cases of upstream, in a private cloud; for --compat it is seen whether there is a login at all."""
    suffix = ".azurecr.my.cloud"
    assert static_keys(tmp_path, image, suffix=suffix) == ({server} if server else set())
    assert bool(static_keys(tmp_path, image, "--compat", suffix=suffix)) is bool(server)


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("my-reg.azurecr.io/x", "my-reg.azurecr.io", True),
        ("reg.eastus.geo.azurecr.io/x", "reg.eastus.geo.azurecr.io", True),
        ("reg.azurecr.io:443/x", "reg.azurecr.io:443", True),
        ("reg.azurecr.io:00443/x", "reg.azurecr.io:00443", True),
        ("reg.azurecr.io:0/x", "", True),
        ("reg.azurecr.io:65536/x", "", True),
        ("reg.azurecr.io:\u00b2/x", "", True),
        (f"reg.azurecr.io:{5000 * '9'}/x", "", True),
        ("reg.azurecr.io:x/x", "", True),
        ("reg.azurecr.io.example/x", "", True),
        ("reg.azurecr.io./x", "", True),
        ("REG.AZURECR.IO/x", "REG.AZURECR.IO", False),
        ("docker/reg.azurecr.io/x", "", False),
        ("notazurecr.io/x", "", False),
        ("my-reg.azurecr.cn/x", "", False),
        ("azurecr.io/x", "", False),
        (".azurecr.io/x", "", False),
        ("-a.azurecr.io/x", "", False),
        ("a..azurecr.io/x", "", False),
        ("u@reg.azurecr.io/x", "", False),
        ("r\u00e9g.azurecr.io/x", "", False),
        ("evil.example#.azurecr.io/x", "", False),
        ("evil.example/x.azurecr.io/app", "", False),
        ("evil.example:443/x.azurecr.io/app", "", False),
        ("my-reg.azurecr.us:443/x.azurecr.io/app", "", False),
    ],
)
def test_in_the_public_cloud_the_host_has_to_be_a_host(
    tmp_path: Path, image: str, ours: str, *, theirs: bool
) -> None:
    """Ours judges what stands before the first slash, all of it; upstream's way looks for the suffix anywhere.

    What upstream finds and is no registry of Azure's counts in neither: a token would go to somebody else.
    """
    assert static_keys(tmp_path, image) == ({ours} if ours else set())
    assert bool(static_keys(tmp_path, image, "--compat")) is theirs


def test_a_suffix_that_is_empty_does_not_match_everything(tmp_path: Path) -> None:
    """Then only the known zones count."""
    assert static_keys(tmp_path, "evil.example/x", suffix=".") == set()
    assert static_keys(tmp_path, "foo.azurecr.io/x", suffix=".") == {"foo.azurecr.io"}


def test_pairs_of_mirrors_are_read_and_others_passed_over(azure: Azure) -> None:
    """Blanks do not count."""
    mirrors = f"aaa,b:c:d,:e,f:,g: {REGISTRY}, h:elsewhere.azurecr.io"
    for image, server in (("g/app", REGISTRY), ("h/app", "elsewhere.azurecr.io")):
        answer = ask(azure, PRINCIPAL, "-r", mirrors, image=image)
        assert set(answer.auth) == {"*.azurecr.*", server, image.partition("/")[0]}
        for entry in ("aaa", "b:c:d", ":e", "f:"):
            assert f"'{entry}' is ignored" in answer.stderr


MIRRORS = ["a.io:x.azurecr.io", "a.io/team:y.azurecr.io/team", "a.io/te:z.azurecr.io"]


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("a.io/other", "x.azurecr.io", "x.azurecr.io"),
        ("a.io/team/app", "y.azurecr.io", "x.azurecr.io"),
        ("a.io/team", "y.azurecr.io", "x.azurecr.io"),
        ("a.io/teams/app", "x.azurecr.io", "x.azurecr.io"),
        ("a.io.evil.example/app", "", "x.azurecr.io"),
        ("b.io/app", "", ""),
    ],
)
def test_the_longest_source_wins_at_a_boundary(azure: Azure, image: str, ours: str, theirs: str) -> None:
    """Whatever the order; upstream takes any beginning of the text, and here the first."""
    for mirrors in (MIRRORS, reversed(MIRRORS)):
        answer = ask(azure, PRINCIPAL, "-r", ",".join(mirrors), image=image)
        assert {key for key, login in answer.auth.items() if login == STATIC and "azurecr" in key} == (
            {ours} if ours else set()
        )
    azure.on_imds(cloud.imds_answers())
    ask(azure, MANAGED, "--compat", "-r", ",".join(MIRRORS), image=image)
    assert set(azure.asked) == ({f"{theirs}:443"} if theirs else set())


def test_waits_grow_as_upstreams_do() -> None:
    """With --compat some 5, 15 and 35 seconds, and then no more attempts."""
    assert PROVIDER_BACKOFF.attempts == 4
    for number, full in ((1, 5.0), (2, 15.0), (3, 35.0)):
        assert all(0.8 * full <= PROVIDER_BACKOFF.delay(number) <= 1.2 * full for _ in range(50))
    assert PROVIDER_BACKOFF.delay(9) == 60.0
