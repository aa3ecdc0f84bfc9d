"""Can this credential pull this image? Ask the registry, and download nothing."""

from collections.abc import Sequence
from contextlib import closing

from keyferry.images.keyring import Credential
from keyferry.pulls.registry.attempt import Attempt, Trial
from keyferry.pulls.registry.client import Registry
from keyferry.pulls.registry.route import Route
from keyferry.pulls.registry.target import find_target
from keyferry.pulls.registry.transport import Deadline, Transport

__all__ = ["check_registry", "check_registry_async"]


def check_registry(
    image: str,
    credentials: Sequence[Credential] = (),
    *,
    route: Route = Route(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """Ask the registry for *image* with each credential in order, or anonymously if there are none.

    Only the head of the manifest is asked for. Failures are in the attempts; raises ImageNameError,
    and EnvironmentProblem for a CA file that cannot be read.
    """
    target = find_target(image)

    def ask(registry: Registry) -> tuple[None, str]:
        return None, registry.has_manifest(target.reference)

    with closing(Transport(route, Deadline(timeout_seconds))) as transport:
        return Trial(transport, target, ask).run(credentials, stops=False)


async def check_registry_async(
    image: str,
    credentials: Sequence[Credential] = (),
    *,
    route: Route = Route(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """As ``check_registry``, without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(
        check_registry, image, credentials, route=route, timeout_seconds=timeout_seconds
    )
