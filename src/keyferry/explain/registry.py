"""What a registry said to each credential, for people and for programs; no secret in either."""

from collections.abc import Iterator, Sequence

from keyferry._secret import printable
from keyferry.explain.document import source_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.attempt import Attempt

__all__ = ["attempt_lines", "can_pull", "check_document", "describe_attempt", "verdict"]


def can_pull(attempts: "Sequence[Attempt]") -> bool:
    """Tell whether any of them worked."""
    return any(attempt.worked for attempt in attempts)


def verdict(name: str, attempts: "Sequence[Attempt]") -> str:
    """The answer in one line."""
    number = len(attempts)
    for at, attempt in enumerate(attempts, 1):
        if attempt.worked and attempt.credential is None:
            return f"yes: {name} can be pulled without a credential"
        if attempt.worked:
            which = "the one credential there is" if number == 1 else f"credential {at} of {number}"
            return f"yes: {name} can be pulled with {which}"
    if attempts and attempts[0].credential is None:
        return f"no: there is no credential for {name}, and without one it cannot be pulled"
    which = "the one credential there is" if number == 1 else f"any of the {number} credentials"
    return f"no: {name} cannot be pulled with {which}"


def describe_attempt(attempt: "Attempt") -> str:
    """What the registry said, in words."""
    if attempt.error is not None:
        return attempt.error.message
    if attempt.was_asked:
        return "yes, it may pull" if attempt.credential is not None else "yes, anybody may pull"
    if attempt.credential is None:
        return "yes, it does not ask for a credential"
    return "yes, but it does not ask for a credential: this one is unproven"


def attempt_lines(attempts: "Sequence[Attempt]") -> Iterator[str]:
    """One line for each attempt, in order."""
    for at, attempt in enumerate(attempts, 1):
        mark = "+" if attempt.worked else "-"
        yield f"{mark} {at}. {_who(attempt)}: {printable(describe_attempt(attempt))}"


def _who(attempt: "Attempt") -> str:
    if attempt.credential is None:
        return "without a credential"
    user = printable(attempt.credential.username) or "(no user name)"
    return f"{user} of {printable(str(attempt.credential.source))}"


def check_document(attempts: "Sequence[Attempt]") -> dict[str, object]:
    """The same for programs."""
    return {"canPull": can_pull(attempts), "attempts": [_attempt(attempt) for attempt in attempts]}


def _attempt(attempt: "Attempt") -> dict[str, object]:
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
        "cause": "" if error is None else error.cause,
        "status": 0 if error is None else error.status,
        "message": describe_attempt(attempt),
    }
