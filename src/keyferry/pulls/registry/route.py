"""The settings for connections to registries: trust, time limits and parallel downloads."""

from __future__ import annotations

import ssl

from keyferry._core.values import Value
from keyferry._net.trust import default_context
from keyferry.errors import EnvironmentProblem

__all__ = ["RegistryRoute", "make_context"]


class RegistryRoute(Value):
    """The settings for connections to registries: trusted authorities, time limits, and parallel downloads.

    *ca_file* is a bundle that is trusted in addition to the system's. *is_insecure* allows plain HTTP and any
    certificate; set it only on the user's request. *answer_seconds* limits a whole response, except the body of a
    blob. The body of a blob has no total limit, but each wait is limited to *idle_seconds*, and at least *pace_bytes*
    must arrive in every *pace_seconds* of waiting.
    """

    use_proxy: bool = True
    ca_file: str = ""
    is_insecure: bool = False
    connect_seconds: float = 10.0
    answer_seconds: float = 30.0
    idle_seconds: float = 30.0
    pace_seconds: float = 30.0
    pace_bytes: int = 1 << 15
    parallel_blobs: int = 3


def make_context(route: RegistryRoute) -> ssl.SSLContext:
    """Return the TLS context of a client; raise EnvironmentProblem if the bundle cannot be read."""
    context = default_context()
    if route.ca_file:
        try:
            context.load_verify_locations(route.ca_file)
        except FileNotFoundError:
            raise EnvironmentProblem(f"CA file {route.ca_file!r}: does not exist") from None
        except (OSError, ValueError):
            raise EnvironmentProblem(
                f"CA file {route.ca_file!r}: cannot be read as certificates in PEM"
            ) from None
    if route.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
