"""How to get to registries: whom to trust, how long to wait, how much at once."""

import ssl

from keyferry._core.values import Value
from keyferry._net.trust import default_context
from keyferry.errors import EnvironmentProblem

__all__ = ["RegistryRoute", "make_context"]


class RegistryRoute(Value):
    """How to get to registries: which authorities to trust, how long to wait, how many blobs to fetch at once.

    *ca_file* is a bundle to trust beside the system's. One that *is_insecure* goes over plain HTTP too, and trusts
    any certificate: only where the user says so. *answer_seconds* bounds everything but the body of a blob;
    that has no end in time, but each wait is at most *idle_seconds* long, and of every *pace_seconds* spent on waiting
    something must come: *pace_bytes* at least.
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
    """The client's side of TLS; raises EnvironmentProblem for a bundle that cannot be read."""
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
