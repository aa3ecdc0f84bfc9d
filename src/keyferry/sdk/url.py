"""URLs and registry names, as Go's programs parse them."""

from keyferry._net.url import (
    UrlSyntaxError,
    read_url,
    split_host_port,
    split_registry_key,
    split_registry_url,
)

__all__ = ["UrlSyntaxError", "read_url", "split_host_port", "split_registry_key", "split_registry_url"]
