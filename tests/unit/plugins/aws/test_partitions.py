"""Partitions of AWS."""

from __future__ import annotations

import pytest

from keyferry_plugins.aws.partitions import partition_of


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
