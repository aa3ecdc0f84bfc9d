"""A registry's response to each credential, as text for people and as a document for programs, without secrets."""

from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.errors import ContainerRuntimeError, Kind, RegistryError
from keyferry.explain.document import source_document
from keyferry.explain.mirrors import mirrors_document
from keyferry.images.missing import MissingInput
from keyferry.images.reference import parse_image
from keyferry.pulls.trial import Attempt, most_telling
from keyferry.show.marks import Mark, mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.mirrors.endpoints import Mirrors

__all__ = ["PullVerdict", "RegistryCheck", "attempt_lines", "check_document", "describe_attempt", "verdict"]


class PullVerdict(WordEnum):
    """Whether an image can be pulled."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class RegistryCheck(Value):
    """A registry's response to each credential, and the other facts that decide whether the image can be pulled.

    *missing* are inputs that were not given and may hold another credential. The container runtime tries *mirrors*
    before the registry; they were not tried here.
    """

    image: str
    attempts: tuple[Attempt, ...]
    missing: tuple[MissingInput, ...] = ()
    mirrors: "Mirrors | None" = None

    @property
    def verdict(self) -> PullVerdict:
        """Whether the image can be pulled; NO only if the registry refused and no mirror or missing input can help.

        An image that the container runtime blocks cannot be pulled, whatever the registry says. A success is a YES
        only if the runtime asks this registry, and asks it so.
        """
        if self.is_blocked:
            return PullVerdict.NO
        if any(attempt.worked for attempt in self.attempts):
            is_sure = self.is_runtimes_way and not self.is_perhaps_not_anonymous
            return PullVerdict.YES if is_sure else PullVerdict.UNKNOWN
        if self.has_other_way or self.kind not in _SURE:
            return PullVerdict.UNKNOWN
        # This includes an image that is not found: registries hide images from users without access.
        return PullVerdict.UNKNOWN if self.missing else PullVerdict.NO

    @property
    def is_blocked(self) -> bool:
        """Whether the container runtime refuses to pull the image."""
        return self.mirrors is not None and self.mirrors.is_blocked

    @property
    def is_runtimes_way(self) -> bool:
        """Whether the container runtime asks the registry that was asked here."""
        return self.mirrors is None or self.mirrors.asks_registry(parse_image(self.image).path)

    @property
    def is_perhaps_not_anonymous(self) -> bool:
        """Whether only anonymous attempts were made, and a missing input may hold a credential.

        A kubelet that has a credential makes no anonymous attempt, and a wrong one is refused for a public image too.
        """
        return bool(self.missing) and all(attempt.credential is None for attempt in self.attempts)

    @property
    def other_way(self) -> str:
        """Where, or as whom, the container runtime may get the image, as text; empty if there is no other way."""
        if self.mirrors is None or not (self.has_other_way or not self.is_runtimes_way):
            return ""
        return str(self.mirrors) if self.is_runtimes_way else self.mirrors.way

    @property
    def has_other_way(self) -> bool:
        """Whether the container runtime may get the image where, or as whom, it was not tried here."""
        if self.mirrors is None:
            return False
        # It uses a login of its own only if the kubelet passes no credential.
        is_anonymous = all(attempt.credential is None for attempt in self.attempts)
        return bool(self.mirrors.problem or self.mirrors.others) or is_anonymous

    @property
    def error(self) -> RegistryError | ContainerRuntimeError | None:
        """The most informative error, if no attempt worked."""
        return None if self._failed is None else self._failed.error

    @property
    def kind(self) -> Kind | None:
        """The kind of that error, as in RegistryError."""
        return None if self._failed is None else self._failed.kind

    @property
    def _failed(self) -> Attempt | None:
        if not self.attempts or any(attempt.worked for attempt in self.attempts):
            return None
        return most_telling(self.attempts)


# Only these errors are about the image; after any other error it is unknown whether it can be pulled.
_SURE = (Kind.REFUSED, Kind.NOT_FOUND)


def verdict(check: RegistryCheck) -> str:
    """Return the verdict in one line."""
    return _VERDICTS[check.verdict](check)


def _yes(check: RegistryCheck) -> str:
    at, attempt = next((at, each) for at, each in enumerate(check.attempts, 1) if each.worked)
    if attempt.credential is None:
        return f"yes: {check.image} can be pulled without a credential"
    if not attempt.was_asked:
        return f"yes: {check.image} can be pulled without a credential being asked for"
    number = len(check.attempts)
    which = f", credential {at} of {number}" if number > 1 else ""
    return f"yes: {check.image} can be pulled with {attempt.who}{which}"


def _no(check: RegistryCheck) -> str:
    if check.is_blocked:
        return f"no: {check.image}: {check.mirrors}"
    if check.kind is Kind.NOT_FOUND:
        return f"no: the registry has no {check.image}, or hides it from users without access"
    if check.attempts and check.attempts[0].credential is None:
        return f"no: there is no credential for {check.image}, and without one it cannot be pulled"
    number = len(check.attempts)
    which = check.attempts[0].who if number == 1 else f"any of the {number} credentials"
    return f"no: {check.image} cannot be pulled with {which}"


def _cannot_tell(check: RegistryCheck) -> str:
    return f"cannot tell whether {check.image} can be pulled: {'; '.join(doubts(check))}"


def doubts(check: RegistryCheck) -> Iterator[str]:
    """Yield the reasons why the registry's response alone does not decide."""
    if check.error is not None and check.kind in (Kind.UNREACHABLE, Kind.TIMEOUT):
        yield check.error.message
    elif check.error is not None and check.kind not in _SURE:
        yield f"the registry gave no conclusive response: {check.error.message}"
    if check.other_way:
        yield check.other_way
    if check.error is None and check.is_perhaps_not_anonymous:
        yield "it can be pulled without a credential, but a kubelet that has one does not try that"
    if check.verdict is not PullVerdict.NO:
        yield from map(str, check.missing)


_VERDICTS = {PullVerdict.YES: _yes, PullVerdict.NO: _no, PullVerdict.UNKNOWN: _cannot_tell}


def describe_attempt(attempt: Attempt) -> str:
    """Return the registry's response to one attempt as a phrase."""
    if attempt.error is not None:
        return attempt.error.message
    if attempt.was_asked:
        return "yes, it may pull" if attempt.credential is not None else "yes, anybody may pull"
    if attempt.credential is None:
        return "yes, it does not ask for a credential"
    return "yes, but it does not ask for a credential: this one was not checked"


def attempt_lines(check: RegistryCheck) -> Iterator[str]:
    """Yield one line for each attempt, in order, then a note about mirrors."""
    for at, attempt in enumerate(check.attempts, 1):
        sign = mark(Mark.YES if attempt.worked else Mark.NO)
        yield f"{sign} {at}. {printable(attempt.who)}: {printable(describe_attempt(attempt))}"
    if check.is_blocked:
        yield f"{mark(Mark.NO)} {printable(str(check.mirrors))}"
    elif check.other_way:
        yield f"{mark(Mark.UNKNOWN)} {printable(check.other_way)}"


def check_document(check: RegistryCheck) -> dict[str, object]:
    """Return a check as a document; ``canPull`` is null if the verdict is unknown."""
    mirrors = check.mirrors
    return {
        "canPull": None if check.verdict is PullVerdict.UNKNOWN else check.verdict is PullVerdict.YES,
        "outcome": str(check.verdict),
        "attempts": [_attempt(attempt) for attempt in check.attempts],
        "mirrors": None if mirrors is None else mirrors_document(mirrors),
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    credential, error = attempt.credential, attempt.error
    shown: dict[str, object] | None = None
    if credential is not None:
        source = source_document(credential.source)
        shown = {"username": credential.username, "key": credential.key, "source": source}
    return {
        "credential": shown,
        "worked": attempt.worked,
        "asked": attempt.was_asked,
        "digest": attempt.digest,
        "cause": str(attempt.kind or ""),
        "status": error.status if isinstance(error, RegistryError) else 0,
        "message": describe_attempt(attempt),
    }
