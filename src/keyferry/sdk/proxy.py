"""Take a URL apart, and find the proxy for it, by the rules of Go's programs."""

from keyferry._net.proxy import Origin, authorization, choose_proxy, split_url

__all__ = ["Origin", "authorization", "choose_proxy", "split_url"]
