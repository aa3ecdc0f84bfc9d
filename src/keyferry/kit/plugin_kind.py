"""The two kinds of credential plugins."""

from keyferry._core.word_enum import WordEnum

__all__ = ["PluginKind"]


class PluginKind(WordEnum):
    """The kind of a plugin: the kubelet's, for images, or client-go's, for clusters."""

    IMAGE = "image"
    CLUSTER = "cluster"
