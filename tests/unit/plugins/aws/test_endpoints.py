"""Partitions and endpoints, by region and wishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.endpoints import ECR, ECR_PUBLIC, STS, find_endpoint, partition_of, standard_host
from keyferry_plugins.aws.environment import Environment


def environment(**variables: str) -> Environment:
    """Settings from *variables* alone."""
    return Environment({"HOME": "/nowhere", **variables}, Deadline(5))


HOSTS = [
    (ECR, "us-west-2", False, False, "api.ecr.us-west-2.amazonaws.com"),
    (ECR, "us-west-2", False, True, "ecr.us-west-2.api.aws"),
    (ECR, "us-west-2", True, False, "api.ecr-fips.us-west-2.amazonaws.com"),
    (ECR, "us-west-2", True, True, "ecr-fips.us-west-2.api.aws"),
    (ECR, "cn-north-1", False, False, "api.ecr.cn-north-1.amazonaws.com.cn"),
    (ECR, "cn-north-1", False, True, "ecr.cn-north-1.api.amazonwebservices.com.cn"),
    (ECR, "us-gov-west-1", True, False, "api.ecr-fips.us-gov-west-1.amazonaws.com"),
    (ECR, "eusc-de-east-1", False, False, "api.ecr.eusc-de-east-1.amazonaws.eu"),
    (ECR, "us-iso-east-1", False, False, "api.ecr.us-iso-east-1.c2s.ic.gov"),
    (ECR, "us-isob-east-1", False, False, "api.ecr.us-isob-east-1.sc2s.sgov.gov"),
    (ECR, "eu-isoe-west-1", False, False, "api.ecr.eu-isoe-west-1.cloud.adc-e.uk"),
    (ECR, "us-isof-east-1", False, False, "api.ecr.us-isof-east-1.csp.hci.ic.gov"),
    (ECR_PUBLIC, "us-east-1", False, False, "api.ecr-public.us-east-1.amazonaws.com"),
    (ECR_PUBLIC, "us-east-1", False, True, "ecr-public.us-east-1.api.aws"),
    (ECR_PUBLIC, "us-east-1", True, False, "api.ecr-public-fips.us-east-1.amazonaws.com"),
    (ECR_PUBLIC, "us-east-1", True, True, "api.ecr-public-fips.us-east-1.api.aws"),
    (STS, "us-west-2", False, False, "sts.us-west-2.amazonaws.com"),
    (STS, "us-west-2", False, True, "sts.us-west-2.api.aws"),
    (STS, "us-west-2", True, False, "sts-fips.us-west-2.amazonaws.com"),
    (STS, "us-west-2", True, True, "sts-fips.us-west-2.api.aws"),
    (STS, "us-gov-west-1", True, False, "sts.us-gov-west-1.amazonaws.com"),
    (STS, "us-gov-west-1", True, True, "sts-fips.us-gov-west-1.api.aws"),
    (STS, "cn-northwest-1", False, False, "sts.cn-northwest-1.amazonaws.com.cn"),
    (STS, "aws-global", False, False, "sts.amazonaws.com"),
]


@pytest.mark.parametrize(("service", "region", "is_fips", "is_dual_stack", "host"), HOSTS)
def test_a_host_follows_from_service_region_and_kind(
    service: str,
    region: str,
    is_fips: bool,
    is_dual_stack: bool,
    host: str,
) -> None:
    """The standard endpoints are those of AWS' own data."""
    assert standard_host(service, region, is_fips=is_fips, is_dual_stack=is_dual_stack) == host


@pytest.mark.parametrize("region", ["eu-isoe-west-1", "us-isof-east-1"])
def test_there_is_no_dual_stack_everywhere(region: str) -> None:
    """A partition without dual-stack endpoints is said, not guessed at."""
    with pytest.raises(ProvideError, match="no dual-stack endpoint in the partition aws-iso-"):
        standard_host(ECR, region, is_dual_stack=True)


def test_variables_choose_the_kind() -> None:
    """FIPS and dual-stack are switched by variables, in any letter case."""
    wishes = environment(AWS_USE_FIPS_ENDPOINT="True", AWS_USE_DUALSTACK_ENDPOINT="true")
    assert find_endpoint(wishes, ECR, "us-east-2").url == "https://ecr-fips.us-east-2.api.aws/"
    off = environment(AWS_USE_FIPS_ENDPOINT="false", AWS_USE_DUALSTACK_ENDPOINT="1")
    assert find_endpoint(off, ECR, "us-east-2").url == "https://api.ecr.us-east-2.amazonaws.com/"


def test_a_configured_endpoint_wins_in_order(tmp_path: Path) -> None:
    """The service's own variable goes first, then the general one, then the profile's two."""
    config = tmp_path / "config"
    config.write_text(
        "[default]\nservices = mine\nendpoint_url = https://general.test\n"
        "[services mine]\necr_public =\n  endpoint_url = https://section.test\n"
    )
    told = {"AWS_CONFIG_FILE": str(config)}
    public = {
        **told,
        "AWS_ENDPOINT_URL_ECR_PUBLIC": "https://own.test",
        "AWS_ENDPOINT_URL": "https://all.test",
    }
    assert find_endpoint(environment(**public), ECR_PUBLIC, "us-east-1").url == "https://own.test"
    assert find_endpoint(environment(**public), STS, "us-east-1").url == "https://all.test"
    assert find_endpoint(environment(**told), ECR_PUBLIC, "us-east-1").url == "https://section.test"
    assert find_endpoint(environment(**told), ECR, "us-east-1").url == "https://general.test"
    ignored = environment(**public, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert find_endpoint(ignored, STS, "us-east-1").url == "https://sts.us-east-1.amazonaws.com/"


def test_no_region_is_an_error_that_says_what_to_set() -> None:
    """Without a region there is no endpoint, and no signature."""
    with pytest.raises(ProvideError, match="set AWS_REGION"):
        find_endpoint(environment(AWS_ENDPOINT_URL="https://all.test"), STS, "")


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-west-2", "aws"), ("eu-central-1", "aws"), ("ap-southeast-7", "aws"), ("sa-east-1", "aws"),
        ("ca-west-1", "aws"), ("me-central-1", "aws"), ("af-south-1", "aws"), ("il-central-1", "aws"),
        ("mx-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-east-1", "aws-us-gov"),
        ("eusc-de-east-1", "aws-eusc"), ("us-iso-east-1", "aws-iso"), ("us-isob-east-1", "aws-iso-b"),
        ("eu-isoe-west-1", "aws-iso-e"), ("us-isof-south-1", "aws-iso-f"), ("lala-land-1", "aws"), ("", "aws"),
    ],
)  # fmt: skip
def test_a_partition_follows_from_the_region(region: str, partition: str) -> None:
    """Every region belongs to one partition, an unknown one to the first."""
    assert partition_of(region).name == partition
