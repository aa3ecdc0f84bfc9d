"""Find how a user of a kubeconfig is authenticated, and which of its credentials are ignored."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry._net.url import parse_url
from keyferry.api.kubeconfig.v1 import AuthInfo
from keyferry.invoke.executable import base_name, clean_path


class Mechanism(Value):
    """The credentials of a user that client-go uses, and those that it ignores."""

    used: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __str__(self) -> str:
        used = " + ".join(self.used) or "none"
        return f"{used} (ignored: {', '.join(self.ignored)})" if self.ignored else used


def find_mechanism(user: AuthInfo, server: str) -> Mechanism:
    """Return the mechanism that client-go uses for *user* at *server*.

    Without https it uses none; a token, basic auth or a certificate takes precedence over an exec plugin.
    """
    static = tuple(_static(user))
    plugin = (f"exec {base_name(clean_path(user.exec.command))}",) if user.exec is not None else ()
    if not is_https(server):
        return Mechanism(used=(), ignored=(*static, *plugin))
    return Mechanism(used=static, ignored=plugin) if static else Mechanism(used=plugin)


def is_https(server: str) -> bool:
    """Return whether client-go connects to *server* with TLS."""
    url = parse_url(server)
    return url is not None and url.scheme == "https" and bool(url.host)


def _static(user: AuthInfo) -> list[str]:
    found = []
    if user.client_certificate or user.client_certificate_data:
        found.append("certificate")
    if user.token_file:
        found.append("token file")
    elif user.token:
        found.append("token")
    if user.username or user.password:
        found.append("basic")
    if user.auth_provider is not None:
        found.append(f"auth-provider {user.auth_provider}")
    return found
