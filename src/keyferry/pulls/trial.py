"""Try credentials for an image one after the other, as the kubelet does, and keep the result of each attempt.

All attempts go through this module: checks with a registry, pulls into a layout, and pulls by a container runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from keyferry._core.secrets import redact
from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, ImagePullError, KeyferryError, Kind, RegistryError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential, SourceKind
from keyferry.pulls.manifest import StoredImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Error = TypeVar("Error", bound=KeyferryError)


# The text that containerd puts before the reason, once or twice, with the image's name; there is no field for it.
_PREAMBLES = ("failed to pull and unpack image ", "failed to resolve reference ")
_WORDS = {
    Kind.REFUSED: "refused",
    Kind.NOT_FOUND: "not found",
    Kind.UNREACHABLE: "cannot be reached",
    Kind.TIMEOUT: "timed out",
    Kind.THROTTLED: "too many requests",
}
# With these codes the runtime's response was lost, and it may have pulled the image.
_INCONCLUSIVE = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")


class AttemptResult(Value):
    """The result of a successful attempt.

    *image_ref* is the reference that records are stored under, empty if nothing was pulled. *was_asked* is False if
    the registry is known not to have asked for a credential. *digest* is the image's digest as the registry reported
    it. *stored* is the image in the target, if the pull itself returns it.
    """

    image_ref: str = ""
    was_asked: bool = True
    digest: str = ""
    stored: StoredImage | None = None


class EndpointAnswer(Value):
    """The answer of one place that a container runtime asks: its *url*, and the *error*, None if it has the image.

    *is_registry* tells whether it is the image's own registry. *doubt* is why the runtime may get another answer there.
    """

    url: str
    is_registry: bool
    error: RegistryError | None = None
    doubt: str = ""


class Attempt(Value):
    """One attempt with a credential, or None for an anonymous one, and its result.

    *digest* is the image's digest as the registry reported it, where that is known. If *was_asked* is False, the
    registry did not ask for a credential: the image is public, and the credential is unproven. If *is_renewed* is
    True, the provider supplied the credential after an earlier one had been refused. *answers* are those of the places
    that a container runtime asks by its files, in order, the last of a success; none if there is no such file.
    """

    credential: Credential | None
    error: RegistryError | ContainerRuntimeError | None = None
    digest: str = ""
    was_asked: bool = True
    is_renewed: bool = False
    answers: tuple[EndpointAnswer, ...] = ()

    @property
    def mirror(self) -> str:
        """The URL of the place that has the image, if that is not the image's own registry; else empty."""
        last = self.answers[-1] if self.answers and self.worked else None
        return "" if last is None or last.is_registry else last.url

    @property
    def worked(self) -> bool:
        """Whether the attempt succeeded."""
        return self.error is None

    @property
    def kind(self) -> Kind | None:
        """The kind of the failure, as in RegistryError; None if the attempt succeeded."""
        return None if self.error is None else self.error.kind

    @property
    def is_conclusive(self) -> bool:
        """Whether the result is certain; a runtime whose response was lost may have pulled the image."""
        return not (isinstance(self.error, ContainerRuntimeError) and self.error.code in _INCONCLUSIVE)

    @property
    def who(self) -> str:
        """The user name and source of the credential, as text for a message."""
        if self.credential is None:
            return "without a credential"
        # A token may stand in the place of the user name.
        return f"{redact(self.credential.username) or '(no user name)'} of {self.credential.source}"

    @property
    def said(self) -> str:
        """The response to the attempt, as text for a message."""
        if self.error is None:
            return "pulled"
        said = _without_preamble(self.error.message or str(self.error))
        # The message of a registry that cannot be reached begins with these words.
        is_said = isinstance(self.error, RegistryError) and self.error.kind is Kind.UNREACHABLE
        word = "" if is_said else _WORDS.get(self.error.kind, "")
        return f"{word}: {said}" if word else said


class Renewal(Value):
    """The result of a second lookup with one provider: its new credentials and its failures."""

    credentials: tuple[Credential, ...] = ()
    failures: tuple[Failure, ...] = ()


class Trial:
    """A series of attempts to get one image.

    *attempt* makes one attempt, and raises RegistryError or ContainerRuntimeError if it fails. *renew* calls the
    provider of a refused credential again.
    """

    def __init__(
        self,
        attempt: Callable[[Credential | None], AttemptResult],
        renew: Callable[[Credential], Renewal] | None = None,
    ) -> None:
        self._make_attempt = attempt
        self._renew = renew
        self._asked_again: set[str] = set()
        self.attempts: list[Attempt] = []
        self.renewals: list[Failure] = []

    def run(self, credentials: Iterable[Credential]) -> AttemptResult | None:
        """Try each credential in order until one works, and return its result, or None if none works.

        Without credentials, make one anonymous attempt.
        """
        waiting = [(credential, False) for credential in credentials]
        if not waiting:
            return self._attempt(None)
        arrival = None
        while waiting and arrival is None:
            credential, is_renewed = waiting.pop(0)
            arrival = self._attempt(credential, is_renewed=is_renewed)
            if arrival is None:
                waiting = self._replace(credential, waiting)
        return arrival

    def run_all(self, credentials: Iterable[Credential]) -> tuple[Attempt, ...]:
        """Try every credential, also after one has worked; without credentials, make one anonymous attempt."""
        for credential in tuple(credentials) or (None,):
            self._attempt(credential)
        return tuple(self.attempts)

    def _attempt(self, credential: Credential | None, *, is_renewed: bool = False) -> AttemptResult | None:
        try:
            arrival = self._make_attempt(credential)
        except (ContainerRuntimeError, RegistryError) as error:
            self.attempts.append(
                Attempt(credential=credential, error=without_frames(error), is_renewed=is_renewed)
            )
            return None
        self.attempts.append(
            Attempt(
                credential=credential,
                error=None,
                digest=arrival.digest,
                was_asked=arrival.was_asked,
                is_renewed=is_renewed,
            )
        )
        return arrival

    def _replace(
        self, credential: Credential, waiting: list[tuple[Credential, bool]]
    ) -> list[tuple[Credential, bool]]:
        """Return the credentials left to try, after a refusal.

        If the provider of the refused credential now has other credentials, they take the place of all its old ones.
        """
        source = credential.source
        is_due = source.kind == SourceKind.PROVIDER and source.name not in self._asked_again
        if self._renew is None or not is_due or self.attempts[-1].kind is not Kind.REFUSED:
            return waiting
        # At most once per provider: a registry that refuses everything must not cause endless plugin runs.
        self._asked_again.add(source.name)
        renewal = self._renew(credential)
        self.renewals += renewal.failures
        if not renewal.credentials:
            return waiting
        tried = {_login(attempt.credential) for attempt in self.attempts}
        fresh = [each for each in renewal.credentials if _login(each) not in tried]
        others = [(each, renewed) for each, renewed in waiting if each.source.name != source.name]
        return [*((each, True) for each in fresh), *others]


def renewal_from(answer: Answer, provider: str) -> Renewal:
    """Return the credentials and failures of one provider in *answer*."""
    credentials = tuple(
        each
        for each in answer.credentials
        if each.source.kind == SourceKind.PROVIDER and each.source.name == provider
    )
    failures = tuple(each for each in answer.failures if each.provider == provider)
    return Renewal(credentials=credentials, failures=failures)


def most_telling(attempts: Sequence[Attempt]) -> Attempt:
    """Return the failed attempt that best explains the failure: the first that is not a refusal, else the last.

    An attempt that fails for another reason than a refusal got further than one that was refused.
    """
    failed = [attempt for attempt in attempts if not attempt.worked]
    return next((attempt for attempt in failed if attempt.kind is not Kind.REFUSED), failed[-1])


def kind_of(error: KeyferryError) -> Kind:
    """Return the kind of an error of a pull; ``ERROR`` for errors that no registry or runtime reported."""
    is_remote = isinstance(error, ContainerRuntimeError | RegistryError | ImagePullError)
    return error.kind if is_remote else Kind.ERROR


def without_frames(error: Error) -> Error:
    """Return *error* without its traceback and context, whose frames hold credentials."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _login(credential: Credential | None) -> tuple[str, str] | None:
    return None if credential is None else (credential.username, credential.password)


def _without_preamble(said: str) -> str:
    """Return a runtime's message without the leading image name, which the caller already shows."""
    while said.startswith(_PREAMBLES) and '": ' in said:
        said = said.partition('": ')[2]
    return said
