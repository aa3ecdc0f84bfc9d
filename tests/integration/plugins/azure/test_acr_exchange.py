"""The exchange with a registry of Azure: what it asks for, where the Entra token may go, what comes back."""

from __future__ import annotations

import pytest

from support import azure_cloud as cloud
from support.azure_acr import MANAGED, ask
from support.azure_cloud import REGISTRY, Azure
from support.fake_cloud import Received, Reply


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


def test_a_challenge_without_quotes_is_understood(azure: Azure) -> None:
    """Unquoted values and a Basic challenge beside it do no harm; compat wants a single header."""
    token = cloud.registry_token()
    answers = cloud.registry_answers(token)
    plain = f"Bearer realm=https://{REGISTRY}/oauth2/token , service={REGISTRY}"

    def answer(received: Received) -> Reply:
        return (
            Reply(401, headers={"WWW-Authenticate": plain}) if received.method == "GET" else answers(received)
        )

    azure.on_imds(cloud.imds_answers())
    azure.on(REGISTRY, answer)
    assert ask(azure, MANAGED).auth[REGISTRY] == (cloud.ZERO_USER, token)


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
