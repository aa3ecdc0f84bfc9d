"""Try credentials one after the other, as the kubelet does, and keep what became of each."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from keyferry._core.values import Value
from keyferry.errors import HttpError, RegistryError
from keyferry.images.keyring import Credential
from keyferry.pulls.registry.client import Registry
from keyferry.pulls.registry.places import find_origin
from keyferry.pulls.registry.target import Target
from keyferry.pulls.registry.transport import Origin, Transport

__all__ = ["Attempt", "Renew", "Trial"]

Result = TypeVar("Result")
# Given a credential and what the registry said to it, a fresh one to try in its place, or None.
Renew = Callable[[Credential, RegistryError], Credential | None]


class Attempt(Value):
    """One credential, or None for an anonymous attempt, and what became of it.

    *digest* is what the registry gave as the image's. *was_asked* tells whether the registry wanted a credential:
    where it did not, the image is public, and the credential unproven.
    """

    credential: Credential | None
    error: RegistryError | None = None
    digest: str = ""
    was_asked: bool = True

    @property
    def worked(self) -> bool:
        """Tell whether the image can be had this way."""
        return self.error is None


class Trial(Generic[Result]):
    """A series of attempts at one image; *use* does the work with a registry, and gives a result and a digest."""

    def __init__(
        self, transport: Transport, target: Target, use: Callable[[Registry], tuple[Result, str]]
    ) -> None:
        self._transport = transport
        self._target = target
        self._use = use
        self._origin: Origin | None = None
        self.attempts: list[Attempt] = []
        self.result: Result | None = None

    def run(
        self, credentials: Sequence[Credential], *, renew: Renew | None = None, stops: bool = True
    ) -> tuple[Attempt, ...]:
        """Try each in order, until one works if it *stops* there; nobody's only if there are none at all.

        A refused credential that *renew* has a fresh one for is tried once more, right away.
        """
        for credential in credentials or (None,):
            attempt = self._attempt(credential)
            fresh = _renewed(attempt, renew)
            if fresh is not None:
                attempt = self._attempt(fresh)
            if attempt.worked and stops:
                break
        return tuple(self.attempts)

    def _attempt(self, credential: Credential | None) -> Attempt:
        error: RegistryError | None = None
        digest, was_asked = "", True
        try:
            registry = self._open(credential)
            self.result, digest = self._use(registry)
            was_asked = registry.asked_for_credential
        except RegistryError as found:
            error = _bare(found)
        self.attempts.append(Attempt(credential, error, digest, was_asked))
        return self.attempts[-1]

    def _open(self, credential: Credential | None) -> Registry:
        name = self._target.registry
        if self._origin is None:
            try:
                self._origin = find_origin(self._transport, name)
            except HttpError as error:
                cause = "timeout" if error.is_timeout else "unreachable"
                raise RegistryError(name, 0, str(error), cause) from None
        return Registry(self._transport, self._origin, name, self._target.repository, credential)


def _renewed(attempt: Attempt, renew: Renew | None) -> Credential | None:
    if renew is None or attempt.error is None or attempt.credential is None or not attempt.error.is_refusal:
        return None
    return renew(attempt.credential, attempt.error)


def _bare(error: RegistryError) -> RegistryError:
    """An error without the frames it came through: they hold headers."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
