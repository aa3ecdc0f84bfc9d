"""Try credentials on an image one after the other, as the kubelet does, and keep what each was told.

Every attempt is made here: those that ask a registry, those that pull into a layout, and those of a container runtime.
"""

from collections.abc import Callable, Iterable, Sequence

from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, ImagePullError, KeyferryError, Kind, RegistryError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential, SourceKind
from keyferry.pulls.stored_image import StoredImage

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import TypeVar

    Error = TypeVar("Error", bound=KeyferryError)

__all__ = [
    "Attempt",
    "AttemptResult",
    "Renewal",
    "Trial",
    "kind_of",
    "most_telling",
    "renewal_from",
    "without_frames",
]

# What containerd says before the reason, once or twice, with the image's name: there is no field for it.
_PREAMBLES = ("failed to pull and unpack image ", "failed to resolve reference ")
_WORDS = {
    Kind.REFUSED: "refused",
    Kind.NOT_FOUND: "not found",
    Kind.UNREACHABLE: "cannot be reached",
    Kind.TIMEOUT: "took too long",
    Kind.THROTTLED: "asked too often",
}
# With these codes a runtime's answer was lost: it may have pulled the image.
_INCONCLUSIVE = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")


class AttemptResult(Value):
    """What an attempt that worked gave.

    *image_ref* is the reference that records are kept under, empty where nothing was pulled. *was_asked* tells whether
    the registry wanted a credential at all, as far as that can be seen. *digest* is what the registry gave as the
    image's, *stored* the image as the target has it, where the target knows that without being asked once more.
    """

    image_ref: str = ""
    was_asked: bool = True
    digest: str = ""
    stored: StoredImage | None = None


class Attempt(Value):
    """One credential, or None for an anonymous attempt, and what became of it.

    *digest* is what the registry gave as the image's, where that is known. *was_asked* tells whether the registry
    wanted a credential: where it did not, the image is public, and the credential unproven. One that *is_renewed* was
    got from its provider after another had been refused.
    """

    credential: Credential | None
    error: RegistryError | ContainerRuntimeError | None = None
    digest: str = ""
    was_asked: bool = True
    is_renewed: bool = False

    @property
    def worked(self) -> bool:
        """Tell whether the image can be had this way."""
        return self.error is None

    @property
    def kind(self) -> Kind | None:
        """Why it did not work, as in RegistryError; None if it did."""
        return None if self.error is None else self.error.kind

    @property
    def is_conclusive(self) -> bool:
        """Tell whether it is known how the attempt ended; a runtime whose answer was lost may have pulled the image."""
        return not (isinstance(self.error, ContainerRuntimeError) and self.error.code in _INCONCLUSIVE)

    @property
    def who(self) -> str:
        """Whose credential it was, in words."""
        if self.credential is None:
            return "without a credential"
        return f"{self.credential.username or '(no user name)'} of {self.credential.source}"

    @property
    def said(self) -> str:
        """What was said to it, in words."""
        if self.error is None:
            return "pulled"
        said = _without_preamble(self.error.message or str(self.error))
        word = _WORDS.get(self.error.kind, "")
        return f"{word}: {said}" if word else said


class Renewal(Value):
    """What a provider gave when it was asked once more: other credentials, or why it has none."""

    credentials: tuple[Credential, ...] = ()
    failures: tuple[Failure, ...] = ()


class Trial:
    """A series of attempts at one image.

    *attempt* makes one, and raises RegistryError or ContainerRuntimeError if it fails. *renew* asks the provider of a
    refused credential anew.
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
        """Try each in order until one works; anonymously only if there are none at all. None if none works."""
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
        """Try every credential, whatever becomes of the others; anonymously only if there are none at all."""
        for credential in tuple(credentials) or (None,):
            self._attempt(credential)
        return tuple(self.attempts)

    def _attempt(self, credential: Credential | None, *, is_renewed: bool = False) -> AttemptResult | None:
        try:
            arrival = self._make_attempt(credential)
        except (ContainerRuntimeError, RegistryError) as error:
            self.attempts.append(Attempt(credential, without_frames(error), is_renewed=is_renewed))
            return None
        self.attempts.append(Attempt(credential, None, arrival.digest, arrival.was_asked, is_renewed))
        return arrival

    def _replace(
        self, credential: Credential, waiting: list[tuple[Credential, bool]]
    ) -> list[tuple[Credential, bool]]:
        """What is left to try: if its provider has other credentials now, those, in place of all its old ones."""
        source = credential.source
        is_due = source.kind == SourceKind.PROVIDER and source.name not in self._asked_again
        if self._renew is None or not is_due or self.attempts[-1].kind is not Kind.REFUSED:
            return waiting
        # Once for each provider, whatever it gives: a registry that refuses everything must not make plugins run on.
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
    """What a new answer has of one provider."""
    credentials = tuple(
        each
        for each in answer.credentials
        if each.source.kind == SourceKind.PROVIDER and each.source.name == provider
    )
    failures = tuple(each for each in answer.failures if each.provider == provider)
    return Renewal(credentials, failures)


def most_telling(attempts: Sequence[Attempt]) -> Attempt:
    """The attempt that says most, of those that failed: with a refusal another credential may come further."""
    failed = [attempt for attempt in attempts if not attempt.worked]
    return next((attempt for attempt in failed if attempt.kind is not Kind.REFUSED), failed[-1])


def kind_of(error: KeyferryError) -> Kind:
    """What an error of a pull means, as in RegistryError; ``ERROR`` of all that no registry or runtime said."""
    is_remote = isinstance(error, ContainerRuntimeError | RegistryError | ImagePullError)
    return error.kind if is_remote else Kind.ERROR


def without_frames(error: "Error") -> "Error":
    """An error without the frames it came through: they hold credentials."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _login(credential: Credential | None) -> tuple[str, str] | None:
    return None if credential is None else (credential.username, credential.password)


def _without_preamble(said: str) -> str:
    """What a runtime said, without the image's name in front of it once or twice: everybody knows which it is."""
    while said.startswith(_PREAMBLES) and '": ' in said:
        said = said.partition('": ')[2]
    return said
