"""The partitions of AWS: their regions and the suffixes of their hosts."""

from __future__ import annotations

from keyferry._core.values import Value

__all__ = ["PARTITIONS", "Partition", "partition_of"]


class Partition(Value):
    """A partition: its name, the prefixes of its regions, and the suffixes of its hosts.

    A partition without *dual_stack_suffix* has no endpoints that serve both IPv4 and IPv6.
    """

    name: str
    regions: tuple[str, ...]
    suffix: str
    dual_stack_suffix: str = ""


_AWS = Partition("aws", ("us", "eu", "ap", "sa", "ca", "me", "af", "il", "mx"), "amazonaws.com", "api.aws")
PARTITIONS = (
    _AWS,
    Partition("aws-cn", ("cn",), "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    Partition("aws-us-gov", ("us-gov",), "amazonaws.com", "api.aws"),
    Partition("aws-eusc", ("eusc-de",), "amazonaws.eu", "api.amazonwebservices.eu"),
    Partition("aws-iso", ("us-iso",), "c2s.ic.gov", "api.aws.ic.gov"),
    Partition("aws-iso-b", ("us-isob",), "sc2s.sgov.gov", "api.aws.scloud"),
    # These two have a dual-stack suffix, but no endpoint under it for the services used here.
    Partition("aws-iso-e", ("eu-isoe",), "cloud.adc-e.uk"),
    Partition("aws-iso-f", ("us-isof",), "csp.hci.ic.gov"),
)


def partition_of(region: str) -> Partition:
    """Return the partition of *region*; an unknown region belongs to the first, as in AWS' own SDKs."""
    return next((partition for partition in PARTITIONS if _covers(partition, region)), _AWS)


def _covers(partition: Partition, region: str) -> bool:
    """Return whether *region* is a prefix of the partition, one word, and a number."""
    for prefix in partition.regions:
        word, dash, number = region.removeprefix(f"{prefix}-").partition("-")
        if region.startswith(f"{prefix}-") and word.isalnum() and dash and number.isdigit():
            return True
    return False
