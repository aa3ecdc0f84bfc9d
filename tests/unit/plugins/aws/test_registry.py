"""The host that an image names, what a host of ECR says, and logins: their ends, and how long they may be kept."""

from __future__ import annotations

import base64

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.endpoints import Endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.aws.registry import (
    EcrHost,
    ImageHost,
    RegistryLogin,
    get_login,
    parse_ecr_host,
    parse_image,
)
from keyferry_plugins.ecr import cache_seconds
from keyferry_plugins.signing.sigv4 import Credentials
from support.fake_cloud import Received, Reply, serving

ACCOUNT = "123456789012"

REGIONS = [
    ("123456789123.dkr.ecr.us-west-2.amazonaws.com", "us-west-2"),
    ("123456789123.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ("123456789123.dkr.ecr.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
    ("123456789123.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
    ("123456789123.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
    ("123456789123.dkr-ecr.us-west-2.on.aws", "us-west-2"),
    ("123456789123.dkr-ecr-fips.us-west-2.on.aws", "us-west-2"),
    ("123456789123.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1"),
    ("123456789123.dkr-ecr-fips.us-gov-east-1.on.aws", "us-gov-east-1"),
    ("foobar", None),
]


@pytest.mark.parametrize(("host", "region"), REGIONS)
def test_the_region_is_taken_from_the_host(host: str, region: str | None) -> None:
    """A host of ECR names its region; any other names none."""
    found = parse_ecr_host(host)
    assert (found.region if found is not None else None) == region


RECOGNISED = [
    "dkr.ecr.lala-land-1.amazonaws.com",
    "dkr.ecr.lala-land-1.amazonaws.com.cn",
    "dkr.ecr-fips.lala-land-1.amazonaws.com",
    "dkr.ecr-fips.lala-land-1.amazonaws.com.cn",
    "dkr.ecr.eusc-de-east-1.amazonaws.eu",
    "dkr.ecr-fips.eusc-de-east-1.amazonaws.eu",
    "dkr-ecr.lala-land-1.on.aws",
    "dkr-ecr-fips.lala-land-1.on.aws",
    "dkr-ecr.lala-land-1.on.amazonwebservices.com.cn",
    "dkr.ecr.us-iso-east-1.c2s.ic.gov",
    "dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
    "dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk",
    "dkr.ecr.us-isof-east-1.csp.hci.ic.gov",
    "dkr-ecr.under_score.amazonaws.com",
]


@pytest.mark.parametrize("rest", RECOGNISED)
def test_every_form_of_a_private_host_is_recognised(rest: str) -> None:
    """Both spellings of the service, FIPS or not, with every suffix."""
    service, _, region_and_suffix = rest.rpartition("ecr-fips." if "-fips" in rest else "ecr.")
    region = region_and_suffix.partition(".")[0]
    expected = EcrHost(account=ACCOUNT, region=region, is_fips="-fips" in rest, is_dual_stack=".on." in rest)
    assert service in {"dkr.", "dkr-"}
    assert parse_ecr_host(f"{ACCOUNT}.{rest}") == expected


@pytest.mark.parametrize(
    "host",
    [
        "12345678901.dkr.ecr.lala-land-1.amazonaws.com",
        "1234567890123.dkr.ecr.lala-land-1.amazonaws.com",
        "12345678901a.dkr.ecr.lala-land-1.amazonaws.com",
        "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662.dkr.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala!-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.#lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.-lala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr..amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.lol",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.gov",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.com.",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.com.hacker.com",
        f"{ACCOUNT}.dog.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.cat.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr-fipslala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecrlala-land-1.amazonaws.com",
        f"{ACCOUNT}.DKR.ecr.us-west-2.amazonaws.com",
        f"x{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
        f"evil.{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
        "public.ecr.aws",
        "",
    ],
)
def test_what_only_looks_like_ecr_is_not(host: str) -> None:
    """No other account, label, region or suffix passes, and nothing may follow."""
    assert parse_ecr_host(host) is None


@pytest.mark.parametrize(
    ("image", "host"),
    [
        (
            f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
            ImageHost(name=f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com"),
        ),
        ("r.test/a/b", ImageHost(name="r.test")),
        ("R.Test/a", ImageHost(name="R.Test")),
        ("r.test:5000/a", ImageHost(name="r.test", port="5000")),
        ("user:pass@r.test:5000/a", ImageHost(name="r.test", port="5000")),
        ("a@b@r.test/a", ImageHost(name="r.test")),
        ("http://foobar", ImageHost(name="foobar")),
        ("r.test/public.ecr.aws/foo:latest", ImageHost(name="r.test")),
        ("r.test?x/y", ImageHost(name="r.test")),
        ("r.test#x/y", ImageHost(name="r.test")),
        ("[::1]:5000/a", ImageHost(name="::1", port="5000")),
        ("r.test:/a", ImageHost(name="r.test")),
    ],
)
def test_the_host_is_that_of_a_url(image: str, host: ImageHost) -> None:
    """Case is kept, user info dropped, the port kept apart."""
    assert parse_image(image) == host


@pytest.mark.parametrize(
    "image",
    ["nginx:latest", "r.test  ", " r.test", "r test/a", "r.test\n/a", "r.test:x/a", "/a", "://a", "1a://r.test",
     "r.te^st/a", "[::1/a", "us er@r.test/a", 'a"b@r.test/a', "[::1]x/a"],
)  # fmt: skip
def test_what_is_no_url_is_refused(image: str) -> None:
    """What Go's parser refuses, or has no host, is an error."""
    with pytest.raises(ProvideError, match="image"):
        parse_image(image)


def test_the_key_keeps_the_port() -> None:
    """An image written with a port is only matched by a key with that port."""
    assert parse_image("r.test:443/a").key == "r.test:443"
    assert parse_image("r.test/a").key == "r.test"


class Ecr:
    """ECR's API with one answer, on loopback."""

    def __init__(self, **data: object) -> None:
        self.data = data

    def __call__(self, _: Received) -> Reply:
        """Answer a request."""
        return Reply(200, {"authorizationData": [self.data]})


def login_of(**data: object) -> RegistryLogin:
    """What is made of an answer of ECR's API."""
    with serving(Ecr(**data)) as server:
        environment = Environment({"HOME": "/nowhere"}, Deadline(20))
        endpoint = Endpoint(url=server.url, service="ecr", region="us-west-2")
        return get_login(environment, endpoint, Credentials(access_key_id="AKIA", secret_access_key="secret"))


def encoded(text: str) -> str:
    """Base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_user_and_password() -> None:
    """The password begins after the first colon."""
    login = login_of(authorizationToken=encoded("AWS:pass:word"))
    assert (login.username, login.password) == ("AWS", "pass:word")


@pytest.mark.parametrize("token", [None, 5, "", "%%%", "QVdTOng", encoded("foo"), "\u00e9"])
def test_what_is_no_token_is_refused(token: object) -> None:
    """Missing, not base64, without a colon: an error that quotes none of it."""
    with pytest.raises(ProvideError, match="authorizationToken") as caught:
        login_of(authorizationToken=token)
    assert not (isinstance(token, str) and token and token in str(caught.value))


@pytest.mark.parametrize("value", ["2024-01-01", True, -1, 1e30, []])
def test_an_expiry_is_a_number_of_seconds(value: object) -> None:
    """Anything else is refused, nothing is guessed."""
    with pytest.raises(ProvideError, match="expiresAt"):
        login_of(authorizationToken=encoded("AWS:x"), expiresAt=value)


def test_an_expiry_may_be_missing_or_fractional() -> None:
    """AWS leaves it out, or gives fractions of seconds."""
    assert login_of(authorizationToken=encoded("AWS:x")).expires_at is None
    assert login_of(authorizationToken=encoded("AWS:x"), expiresAt=1.5).expires_at == 1.5


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("left", "seconds", "compat"),
    [
        (None, 0, 0),
        (43_200, 21_600, 21_600),
        (43_199.9, 21_599, 21_599),
        (2, 1, 1),
        (1.9, 0, None),
        (0, 0, None),
        (-1000, 0, None),
        (1e9, 21_600, 500_000_000),
    ],
)
def test_a_login_is_kept_for_half_its_life(left: float | None, seconds: int, compat: int | None) -> None:
    """A dead login is never to be cached; upstream leaves that to the config's default."""
    login = RegistryLogin(username="AWS", password="x", expires_at=None if left is None else NOW + left)
    assert cache_seconds(login, NOW) == seconds
    assert cache_seconds(login, NOW, is_compat=True) == compat
