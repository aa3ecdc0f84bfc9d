"""The region of a cluster of EKS."""

from __future__ import annotations

import pytest

from keyferry_plugins.eks import region_of_server


@pytest.mark.parametrize(
    ("server", "region"),
    [
        ("https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com", "us-west-2"),
        ("https://0123456789ABCDEF.yl4.cn-north-1.eks.amazonaws.com.cn:443/x", "cn-north-1"),
        ("https://api.example.test", ""),
        ("", ""),
    ],
)
def test_the_api_server_names_its_region(server: str, region: str) -> None:
    """The URL of a cluster of EKS has the region in it."""
    assert region_of_server(server) == region
