"""Try a pod's credentials on an image, one after the other; who gave one that is refused is asked once more."""

from collections.abc import Callable, Iterable

from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, KeyferryError, RegistryError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential
from keyferry.pulls.puller.outcome import PullAttempt
from keyferry.pulls.puller.target import Arrival

__all__ = ["CredentialTrial", "Renewal", "bare", "fresh_from", "saw_the_end"]

# A runtime that was not heard to the end may have brought the image all the same.
_UNHEARD = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")


class Renewal(Value):
    """What a provider gave when it was asked once more: other credentials, or why it has none."""

    credentials: tuple[Credential, ...] = ()
    failures: tuple[Failure, ...] = ()


Pull = Callable[[Credential | None], Arrival]
Renew = Callable[[Credential], Renewal]


class CredentialTrial:
    """A series of attempts at one image; *pull* makes one, *renew* asks the provider of a refused credential anew."""

    def __init__(self, pull: Pull, renew: Renew | None = None) -> None:
        self._pull = pull
        self._renew = renew
        self._asked_again: set[str] = set()
        self.attempts: list[PullAttempt] = []
        self.renewals: list[Failure] = []

    def run(self, credentials: Iterable[Credential]) -> Arrival | None:
        """Try each in order until one works; nobody's only if there are none at all. None if none works."""
        waiting = [(credential, False) for credential in credentials]
        if not waiting:
            return self._attempt(None)
        while waiting:
            credential, is_renewed = waiting.pop(0)
            arrival = self._attempt(credential, is_renewed=is_renewed)
            if arrival is not None:
                return arrival
            waiting = self._freshen(credential, waiting)
        return None

    def _attempt(self, credential: Credential | None, *, is_renewed: bool = False) -> Arrival | None:
        try:
            arrival = self._pull(credential)
        except (ContainerRuntimeError, RegistryError) as error:
            self.attempts.append(PullAttempt(credential, bare(error), is_renewed))
            return None
        self.attempts.append(PullAttempt(credential, None, is_renewed, arrival.was_asked))
        return arrival

    def _freshen(
        self, credential: Credential, waiting: list[tuple[Credential, bool]]
    ) -> list[tuple[Credential, bool]]:
        """What is left to try: if its provider has other credentials now, those, in place of all its old ones."""
        source = credential.source
        is_due = (
            self._renew is not None and source.kind == "provider" and source.name not in self._asked_again
        )
        if self._renew is None or not is_due or self.attempts[-1].cause != "refused":
            return waiting
        # Once for each provider, whatever it gives: a registry that refuses everything must not make plugins run on.
        self._asked_again.add(source.name)
        renewal = self._renew(credential)
        self.renewals += renewal.failures
        tried = {_login(attempt.credential) for attempt in self.attempts}
        fresh = [each for each in renewal.credentials if _login(each) not in tried]
        if not renewal.credentials:
            return waiting
        others = [(each, renewed) for each, renewed in waiting if each.source.name != source.name]
        return [(each, True) for each in fresh] + others


def fresh_from(answer: Answer, provider: str) -> Renewal:
    """What a new answer has of one provider."""
    credentials = tuple(
        each for each in answer.credentials if each.source.kind == "provider" and each.source.name == provider
    )
    failures = tuple(each for each in answer.failures if each.provider == provider)
    return Renewal(credentials, failures)


def saw_the_end(attempts: Iterable[PullAttempt]) -> bool:
    """Tell whether every attempt that failed is known to have failed."""
    return not any(
        isinstance(attempt.error, ContainerRuntimeError) and attempt.error.code in _UNHEARD
        for attempt in attempts
    )


def _login(credential: Credential | None) -> tuple[str, str] | None:
    return None if credential is None else (credential.username, credential.password)


def bare(error: KeyferryError) -> KeyferryError:
    """An error without the frames it came through: they hold credentials."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
