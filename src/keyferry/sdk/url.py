"""URLs and the names of registries, as Go's programs read them."""

from keyferry._net.url import (
    UrlSyntaxError,
    read_url,
    split_host_port,
    split_registry_key,
    split_registry_url,
)

__all__ = ["UrlSyntaxError", "read_url", "split_host_port", "split_registry_key", "split_registry_url"]
