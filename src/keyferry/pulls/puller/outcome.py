"""The outcome of a pull, as a value with all attempts and reasons."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import KeyferryError, RecordError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential
from keyferry.pulls.manifest import Descriptor
from keyferry.pulls.platform import Platform
from keyferry.pulls.records.decide import Decision
from keyferry.pulls.trial import Attempt

__all__ = ["PullAction", "PullOutcome"]


class PullAction(StrEnum):
    """The action taken for an image: it was pulled, it was present and is used, or it failed."""

    PULLED = "pulled"
    PRESENT = "present"
    FAILED = "failed"


class PullOutcome(Value):
    """The outcome of a pull: the image, or the error that prevented it.

    *action* is ``pulled``, ``present`` (used without a pull) or ``failed``. *image_ref* is the runtime's reference,
    which is the key of the image's record. *digest* is the image's digest in its registry, where that is known. *used*
    is the credential that worked, *recorded* the credentials that were added to the node's records, *record_problem*
    the error that prevented it. *answer* is the result of the lookup, if one was made, and *failures* are the providers
    that failed.

    For an image in a layout, *name* is its name in the index, and *manifest_digest* the digest of its manifest.
    *digest* is the same, unless the image was just pulled: then it is the digest that the registry has for the name,
    which may be that of an index.
    """

    image: str
    place: str
    pull_policy: str
    action: PullAction
    image_ref: str = ""
    digest: str = ""
    size: int = 0
    used: Credential | None = None
    attempts: tuple[Attempt, ...] = ()
    decision: Decision | None = None
    answer: Answer | None = field(default=None, repr=False)
    recorded: ImagePullCredentials | None = field(default=None, repr=False)
    record_problem: RecordError | None = None
    seconds: float = 0.0
    error: KeyferryError | None = None
    renewals: tuple[Failure, ...] = ()
    name: str = ""
    manifest_digest: str = ""
    platform: Platform | None = None
    layers: tuple[Descriptor, ...] = field(default=(), repr=False)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The providers that failed, in the first lookup or when they were called again."""
        return (*(() if self.answer is None else self.answer.failures), *self.renewals)

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<PullOutcome {self.action}: {self.image!r}: {self.error}>"
        how = f", with {self.used.username!r} of {self.used.source}" if self.used is not None else ""
        return f"<PullOutcome {self.action}: {self.image!r} in {self.place}, {self.size} bytes{how}>"

    def raise_for_failure(self) -> None:
        """Raise the error that prevented the pull, if there is one."""
        if self.error is not None:
            raise self.error
