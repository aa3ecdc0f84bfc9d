"""The host that an image names, and what a host of ECR says."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.images import EcrHost, ImageHost, parse_ecr_host, parse_image

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
    expected = EcrHost(ACCOUNT, region, is_fips="-fips" in rest, is_dual_stack=".on." in rest)
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
            ImageHost(f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com"),
        ),
        ("r.test/a/b", ImageHost("r.test")),
        ("R.Test/a", ImageHost("R.Test")),
        ("r.test:5000/a", ImageHost("r.test", "5000")),
        ("user:pass@r.test:5000/a", ImageHost("r.test", "5000")),
        ("a@b@r.test/a", ImageHost("r.test")),
        ("http://foobar", ImageHost("foobar")),
        ("r.test/public.ecr.aws/foo:latest", ImageHost("r.test")),
        ("r.test?x/y", ImageHost("r.test")),
        ("r.test#x/y", ImageHost("r.test")),
        ("[::1]:5000/a", ImageHost("::1", "5000")),
        ("r.test:/a", ImageHost("r.test")),
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
