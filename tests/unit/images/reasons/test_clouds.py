"""Clouds' registries that short patterns are meant for."""

from __future__ import annotations

import pytest

from keyferry.images.match import matches
from keyferry.images.reasons.nearness import find_longer_cloud


@pytest.mark.parametrize(
    ("host", "image"),
    [
        ("*.amazonaws.com", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app"),
        ("*.dkr.ecr.amazonaws.com", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app"),
        ("*.dkr.ecr.amazonaws.com.cn", "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/app"),
        ("*gcr.io", "eu.gcr.io/project/app"),
        ("*azurecr.io", "acme.azurecr.io/app"),
        ("*pkg.dev", "europe-docker.pkg.dev/project/app"),
    ],
)
def test_the_pattern_of_the_cloud_covers_its_images(host: str, image: str) -> None:
    cloud = find_longer_cloud(host)
    assert cloud is not None
    assert matches(cloud.pattern, image)
    assert image.partition("/")[0].count(".") + 1 == cloud.label_count


@pytest.mark.parametrize("host", ["*.dkr.ecr.*.amazonaws.com", "*.gcr.io", "*.reg.io", "amazonaws.example"])
def test_a_host_with_enough_labels_or_of_nobody_is_no_clouds(host: str) -> None:
    assert find_longer_cloud(host) is None
