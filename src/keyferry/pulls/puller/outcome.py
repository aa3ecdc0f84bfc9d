"""What became of a pod's need for an image: values, with everything that was tried and why."""

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import ContainerRuntimeError, ImagePullError, KeyferryError, RecordError, RegistryError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential
from keyferry.pulls.records.decision import Decision

__all__ = ["FAILED", "PRESENT", "PULLED", "PullAttempt", "PullOutcome", "cause_of"]

PULLED, PRESENT, FAILED = "pulled", "present", "failed"

# What a runtime calls a failure, in the words that registries' errors have.
_CAUSES = {"missing": "not-found", "other": "error"}
_PREAMBLES = ("failed to pull and unpack image ", "failed to resolve reference ")
_WORDS = {
    "refused": "refused",
    "not-found": "not found",
    "unreachable": "cannot be reached",
    "timeout": "took too long",
    "throttled": "asked too often",
}


class PullAttempt(Value):
    """One credential, or None for an anonymous attempt, and what became of it.

    One that *is_renewed* was got from its provider after another had been refused. Unless the registry asked for a
    credential (*was_asked*, as far as that can be seen) this one is unproven.
    """

    credential: Credential | None
    error: KeyferryError | None = None
    is_renewed: bool = False
    was_asked: bool = True

    @property
    def worked(self) -> bool:
        """Tell whether the image came this way."""
        return self.error is None

    @property
    def cause(self) -> str:
        """Why it did not work, as in RegistryError; empty if it did."""
        return "" if self.error is None else cause_of(self.error)

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
        said = _without_preamble(getattr(self.error, "message", "") or str(self.error))
        word = _WORDS.get(self.cause, "")
        return f"{word}: {said}" if word else said


class PullOutcome(Value):
    """An image that is there now, or why it is not.

    *action* is ``pulled``, ``present`` (used as it was) or ``failed``. *image_ref* is the runtime's reference, which
    records are kept under; *digest* what the image is called by in its registry, where that is known. *used* is the
    credential that worked, *recorded* what was added to the node's records of it, *record_problem* why
    nothing was. *answer* is what was looked up, if it had to be; *failures* are providers that failed then.
    """

    image: str
    place: str
    pull_policy: str
    action: str
    image_ref: str = ""
    digest: str = ""
    size: int = 0
    used: Credential | None = None
    attempts: tuple[PullAttempt, ...] = ()
    decision: Decision | None = None
    answer: Answer | None = field(default=None, repr=False)
    recorded: ImagePullCredentials | None = field(default=None, repr=False)
    record_problem: RecordError | None = None
    seconds: float = 0.0
    error: KeyferryError | None = None
    renewals: tuple[Failure, ...] = ()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The providers that failed, at first or when they were asked once more."""
        return (*(() if self.answer is None else self.answer.failures), *self.renewals)

    def raise_for_failure(self) -> None:
        """Raise what kept the image from being there, if anything did."""
        if self.error is not None:
            raise self.error


def _without_preamble(said: str) -> str:
    """What a runtime said, without the image's name in front of it once or twice: everybody knows which it is."""
    while said.startswith(_PREAMBLES) and '": ' in said:
        said = said.partition('": ')[2]
    return said


def cause_of(error: KeyferryError) -> str:
    """What an error means, in the words of RegistryError."""
    if isinstance(error, ContainerRuntimeError):
        return _CAUSES.get(error.kind, error.kind)
    if isinstance(error, RegistryError | ImagePullError):
        return error.cause
    return "error"
