"""Endpoints of AWS services: the configured one, or the standard one by region, FIPS and dual-stack settings."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.sdk import ProvideError
from keyferry_plugins.aws.environment import Environment

ECR, ECR_PUBLIC, STS = "ecr", "ecr-public", "sts"
PUBLIC_REGION = "us-east-1"
GLOBAL_REGION = "aws-global"
# Until 2022 these regions shared one endpoint; botocore still has the setting that restores it.
LEGACY_STS_REGIONS = frozenset(
    [
        "ap-northeast-1",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "aws-global",
        "ca-central-1",
        "eu-central-1",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    ]
)


class Partition(Value):
    """A partition: its name, the prefixes of its regions, and the suffixes of its hosts.

    A partition without *dual_stack_suffix* has no endpoints that serve both IPv4 and IPv6.
    """

    name: str
    regions: tuple[str, ...]
    suffix: str
    dual_stack_suffix: str = ""


_AWS = Partition(
    name="aws",
    regions=("us", "eu", "ap", "sa", "ca", "me", "af", "il", "mx"),
    suffix="amazonaws.com",
    dual_stack_suffix="api.aws",
)
_GOVERNMENT = Partition(
    name="aws-us-gov", regions=("us-gov",), suffix="amazonaws.com", dual_stack_suffix="api.aws"
)
PARTITIONS = (
    _AWS,
    Partition(
        name="aws-cn",
        regions=("cn",),
        suffix="amazonaws.com.cn",
        dual_stack_suffix="api.amazonwebservices.com.cn",
    ),
    _GOVERNMENT,
    Partition(
        name="aws-eusc",
        regions=("eusc-de",),
        suffix="amazonaws.eu",
        dual_stack_suffix="api.amazonwebservices.eu",
    ),
    Partition(name="aws-iso", regions=("us-iso",), suffix="c2s.ic.gov", dual_stack_suffix="api.aws.ic.gov"),
    Partition(
        name="aws-iso-b", regions=("us-isob",), suffix="sc2s.sgov.gov", dual_stack_suffix="api.aws.scloud"
    ),
    # These two have a dual-stack suffix, but no endpoint under it for the services used here.
    Partition(name="aws-iso-e", regions=("eu-isoe",), suffix="cloud.adc-e.uk"),
    Partition(name="aws-iso-f", regions=("us-isof",), suffix="csp.hci.ic.gov"),
)


def partition_of(region: str) -> Partition:
    """Return the partition of *region*; an unknown region belongs to the first, as in AWS' own SDKs."""
    for partition in PARTITIONS:
        for prefix in partition.regions:
            # A region is a prefix of the partition, one word, and a number.
            word, dash, number = region.removeprefix(f"{prefix}-").partition("-")
            if region.startswith(f"{prefix}-") and word.isalnum() and dash and number.isdigit():
                return partition
    return _AWS


class Endpoint(Value):
    """The URL to send a request to, and the region and service to sign it for."""

    url: str
    service: str
    region: str


def find_endpoint(
    environment: Environment,
    service: str,
    region: str,
    *,
    is_fips: bool = False,
    is_dual_stack: bool = False,
) -> Endpoint:
    """Return the endpoint of *service*: the configured one, or else the standard one.

    FIPS and dual-stack apply if set by argument or in the environment. Raise ProvideError if the region is
    missing or has no such endpoint.
    """
    if not region:
        raise ProvideError(
            f"{service}: no region is set",
            "set AWS_REGION, or region in the profile of the AWS config file",
        )
    configured = configured_endpoint(environment, service)
    if configured:
        return Endpoint(url=configured, service=service, region=region)
    is_fips = is_fips or environment.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
    is_dual_stack = is_dual_stack or environment.is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")
    host = standard_host(service, region, is_fips=is_fips, is_dual_stack=is_dual_stack)
    return Endpoint(
        url=f"https://{host}/",
        service=service,
        region=PUBLIC_REGION if region == GLOBAL_REGION else region,
    )


def configured_endpoint(environment: Environment, service: str) -> str:
    """Return the URL that variables or the profile set for *service*, or an empty string."""
    if environment.is_on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls"):
        return ""
    # The endpoint variables and the profiles' sections use underscores in service names.
    name = service.replace("-", "_")
    return (
        environment.variable(f"AWS_ENDPOINT_URL_{name.upper()}")
        or environment.variable("AWS_ENDPOINT_URL")
        or environment.service_setting(name, "endpoint_url")
        or environment.profile_text("endpoint_url")
    )


def standard_host(service: str, region: str, *, is_fips: bool = False, is_dual_stack: bool = False) -> str:
    """Return the host of *service* in *region*; raise ProvideError if the partition has no dual-stack endpoints."""
    if service == ECR_PUBLIC:
        return _public_host(is_fips=is_fips, is_dual_stack=is_dual_stack)
    if service == STS and region == GLOBAL_REGION:
        return "sts.amazonaws.com"
    partition = partition_of(region)
    fips = "-fips" if is_fips else ""
    if is_dual_stack:
        if not partition.dual_stack_suffix:
            raise ProvideError(
                f"{service}: there is no dual-stack endpoint in the partition {partition.name} of {region!r}",
                "unset AWS_USE_DUALSTACK_ENDPOINT, and use_dualstack_endpoint in the profile",
            )
        return f"{service}{fips}.{region}.{partition.dual_stack_suffix}"
    if service == STS and partition is _GOVERNMENT:
        fips = ""
    return f"{'api.' if service == ECR else ''}{service}{fips}.{region}.{partition.suffix}"


def _public_host(*, is_fips: bool, is_dual_stack: bool) -> str:
    name = "ecr-public-fips" if is_fips else "ecr-public"
    suffix = "api.aws" if is_dual_stack else "amazonaws.com"
    # In AWS' endpoint data only the dual-stack form without FIPS has no "api." prefix.
    prefix = "" if is_dual_stack and not is_fips else "api."
    return f"{prefix}{name}.{PUBLIC_REGION}.{suffix}"
