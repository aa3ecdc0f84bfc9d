"""Options of keyferry-oidc."""

from __future__ import annotations

from keyferry.sdk.flags import parse_flags
from keyferry_plugins.openid.options import FLAGS, Options, read_options


def options_of(*args: str) -> Options:
    """Return the options of these flags, for some issuer and client."""
    return read_options(parse_flags(FLAGS, ["--oidc-issuer-url=https://i", "--oidc-client-id=c", *args]))
