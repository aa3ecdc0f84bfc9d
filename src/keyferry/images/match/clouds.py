"""Registries of clouds, whose hosts have more parts than short patterns have."""

from __future__ import annotations

from keyferry._core.values import NamedTuple

__all__ = ["CloudRegistry", "find_longer_cloud"]


class CloudRegistry(NamedTuple):
    """The domain of a cloud's registries, the number of labels of their hosts, their name, and a pattern for them."""

    domain: str
    label_count: int
    name: str
    pattern: str


_CLOUDS = (
    CloudRegistry("amazonaws.com", 6, "ECR", "*.dkr.ecr.*.amazonaws.com"),
    CloudRegistry("amazonaws.com.cn", 7, "ECR", "*.dkr.ecr.*.amazonaws.com.cn"),
    CloudRegistry("gcr.io", 3, "GCR", "*.gcr.io"),
    CloudRegistry("azurecr.io", 3, "ACR", "*.azurecr.io"),
    CloudRegistry("pkg.dev", 3, "Artifact Registry", "*-docker.pkg.dev"),
)


def find_longer_cloud(host: str) -> CloudRegistry | None:
    """Return the registries of a cloud whose domain ends the *host* of a pattern, and whose hosts have more labels."""
    count = host.count(".") + 1
    for cloud in _CLOUDS:
        if host.endswith(cloud.domain) and count < cloud.label_count:
            return cloud
    return None
