"""The two kinds of credential plugins."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["PluginKind"]


class PluginKind(StrEnum):
    """The kind of a plugin: the kubelet's, for images, or client-go's, for clusters."""

    IMAGE = "image"
    CLUSTER = "cluster"
