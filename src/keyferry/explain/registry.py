"""What a registry said to each credential, for people and for programs; no secret in either."""

from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry.errors import ContainerRuntimeError, Kind, RegistryError
from keyferry.explain.document import source_document
from keyferry.images.missing import MissingInput
from keyferry.pulls.trial import Attempt, most_telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.registry.mirrors import Mirrors

__all__ = ["PullVerdict", "RegistryCheck", "attempt_lines", "check_document", "describe_attempt", "verdict"]


class PullVerdict(StrEnum):
    """Whether an image can be pulled."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class RegistryCheck(Value):
    """What a registry said to each credential, and what else decides whether the image can be pulled.

    *missing* is what was not given and may hold another credential; *mirrors* are asked before the registry by
    the container runtime, and were not asked here.
    """

    image: str
    attempts: tuple[Attempt, ...]
    missing: tuple[MissingInput, ...] = ()
    mirrors: "Mirrors | None" = None

    @property
    def verdict(self) -> PullVerdict:
        """A no is sure only if the registry said so, and nothing else can say yes."""
        if any(attempt.worked for attempt in self.attempts):
            return PullVerdict.YES
        if self.mirrors is not None or self.kind not in _SURE:
            return PullVerdict.UNKNOWN
        # Also of an image that is not there: registries hide from one user what another may have.
        return PullVerdict.UNKNOWN if self.missing else PullVerdict.NO

    @property
    def error(self) -> RegistryError | ContainerRuntimeError | None:
        """The most telling of what was said, if nothing worked."""
        return None if self._failed is None else self._failed.error

    @property
    def kind(self) -> Kind | None:
        """What that means, as in RegistryError."""
        return None if self._failed is None else self._failed.kind

    @property
    def _failed(self) -> Attempt | None:
        if not self.attempts or any(attempt.worked for attempt in self.attempts):
            return None
        return most_telling(self.attempts)


# Only these say something about the image; after all else it is as unknown as before.
_SURE = (Kind.REFUSED, Kind.NOT_FOUND)


def verdict(check: RegistryCheck) -> str:
    """The answer in one line."""
    return _VERDICTS[check.verdict](check)


def _yes(check: RegistryCheck) -> str:
    number = len(check.attempts)
    at, attempt = next((at, each) for at, each in enumerate(check.attempts, 1) if each.worked)
    if attempt.credential is None:
        return f"yes: {check.image} can be pulled without a credential"
    return f"yes: {check.image} can be pulled with {_the_one(number) or f'credential {at} of {number}'}"


def _no(check: RegistryCheck) -> str:
    if check.attempts and check.attempts[0].credential is None:
        return f"no: there is no credential for {check.image}, and without one it cannot be pulled"
    number = len(check.attempts)
    which = _the_one(number) or f"any of the {number} credentials"
    return f"no: {check.image} cannot be pulled with {which}"


def _cannot_tell(check: RegistryCheck) -> str:
    return f"cannot tell whether {check.image} can be pulled: {'; '.join(doubts(check))}"


def doubts(check: RegistryCheck) -> Iterator[str]:
    """Why the registry's word alone does not decide it."""
    if check.error is not None and check.kind not in _SURE:
        yield f"the registry gave no answer to go by: {check.error.message}"
    if check.mirrors is not None:
        yield str(check.mirrors)
    if check.verdict is not PullVerdict.NO:
        yield from map(str, check.missing)


def _the_one(number: int) -> str:
    return "the one credential there is" if number == 1 else ""


_VERDICTS = {PullVerdict.YES: _yes, PullVerdict.NO: _no, PullVerdict.UNKNOWN: _cannot_tell}


def describe_attempt(attempt: Attempt) -> str:
    """What the registry said, in words."""
    if attempt.error is not None:
        return attempt.error.message
    if attempt.was_asked:
        return "yes, it may pull" if attempt.credential is not None else "yes, anybody may pull"
    if attempt.credential is None:
        return "yes, it does not ask for a credential"
    return "yes, but it does not ask for a credential: this one is unproven"


def attempt_lines(check: RegistryCheck) -> Iterator[str]:
    """One line for each attempt, in order; then why that is not all there is to it."""
    for at, attempt in enumerate(check.attempts, 1):
        mark = "+" if attempt.worked else "-"
        yield f"{mark} {at}. {printable(attempt.who)}: {printable(describe_attempt(attempt))}"
    if check.verdict is PullVerdict.UNKNOWN:
        yield f"? {printable(verdict(check))}"
    elif check.mirrors is not None:
        yield f"? {printable(str(check.mirrors))}"


def check_document(check: RegistryCheck) -> dict[str, object]:
    """The same for programs; ``canPull`` is null where nobody can tell."""
    mirrors = check.mirrors
    return {
        "canPull": None if check.verdict is PullVerdict.UNKNOWN else check.verdict is PullVerdict.YES,
        "outcome": str(check.verdict),
        "attempts": [_attempt(attempt) for attempt in check.attempts],
        "mirrors": None
        if mirrors is None
        else {"file": mirrors.file, "hosts": list(mirrors.hosts), "problem": mirrors.problem},
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
