"""Check with the registry whether credentials can pull an image, without downloading it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from keyferry._core.clock import check_timeout
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.registry.access import RegistryAccess
from keyferry.pulls.registry.route import RegistryRoute
from keyferry.pulls.registry.transport import Deadline, Transport
from keyferry.pulls.trial import Attempt, AttemptResult, Trial

__all__ = ["check_registry", "check_registry_async"]


def check_registry(
    image: str | ImageName,
    credentials: Sequence[Credential] = (),
    *,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """Request *image* from its registry with each credential in order, or anonymously if there are none.

    The manifest is requested with HEAD if the registry supports that. Failures are part of the attempts. Raise
    ImageNameError, EnvironmentProblem if the CA file cannot be read, and ValueError if *timeout_seconds* is not valid.
    """
    check_timeout(timeout_seconds)
    name = parse_image(image)
    with closing(Transport(route, Deadline(timeout_seconds))) as transport:
        access = RegistryAccess(transport, name)

        def ask(credential: Credential | None) -> AttemptResult:
            registry = access.with_credential(credential)
            digest = registry.has_manifest(name.reference)
            return AttemptResult(was_asked=registry.asked_for_credential, digest=digest)

        return Trial(ask).run_all(credentials)


async def check_registry_async(
    image: str | ImageName,
    credentials: Sequence[Credential] = (),
    *,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """Do the same as ``check_registry``, without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(
        check_registry, image, credentials, route=route, timeout_seconds=timeout_seconds
    )
