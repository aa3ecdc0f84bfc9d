"""What became of a pod's need for an image: values, with everything that was tried and why."""

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import KeyferryError, RecordError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential
from keyferry.pulls.records.decision import Decision
from keyferry.pulls.trial import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.manifest import Descriptor
    from keyferry.pulls.platform import Platform

__all__ = ["PullAction", "PullOutcome"]


class PullAction(StrEnum):
    """What was done about an image: pulled, used as it was, or neither."""

    PULLED = "pulled"
    PRESENT = "present"
    FAILED = "failed"


class PullOutcome(Value):
    """An image that is there now, or why it is not.

    *action* is ``pulled``, ``present`` (used as it was) or ``failed``. *image_ref* is the runtime's reference, which
    records are kept under; *digest* what the image is called by in its registry, where that is known. *used* is the
    credential that worked, *recorded* what was added to the node's records of it, *record_problem* why
    nothing was. *answer* is what was looked up, if it had to be; *failures* are providers that failed then.

    Of an image in a layout *name* is what tools know it by there, and *manifest_digest* its manifest. So is *digest*,
    unless the image was pulled just now: then it is what the registry has under the name, which may be an index.
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
    platform: "Platform | None" = None
    layers: "tuple[Descriptor, ...]" = field(default=(), repr=False)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The providers that failed, at first or when they were asked once more."""
        return (*(() if self.answer is None else self.answer.failures), *self.renewals)

    def raise_for_failure(self) -> None:
        """Raise what kept the image from being there, if anything did."""
        if self.error is not None:
            raise self.error
