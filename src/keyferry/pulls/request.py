"""What is asked of a pull, what a target does, and the outcome: the values and the interface that all targets share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Protocol

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import KeyferryError, RecordError
from keyferry.images.answer import Answer, Failure
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import Credential
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import ImageName
from keyferry.pulls.manifest import Descriptor, Platform, StoredImage
from keyferry.pulls.records.decide import Decision
from keyferry.pulls.trial import Attempt, AttemptResult

ALWAYS, IF_NOT_PRESENT, NEVER = "Always", "IfNotPresent", "Never"
PULL_POLICIES = (ALWAYS, IF_NOT_PRESENT, NEVER)
_MOVING_TAG = "latest"


def choose_pull_policy(given: str, image: ImageName | None) -> str:
    """Return the given ``imagePullPolicy``, or the API server's default; raise ValueError for an unknown one.

    The default is Always if the tag is "latest" or missing, else IfNotPresent; so also for a digest without a tag, and
    for None, a name that does not parse.
    """
    if given and given not in PULL_POLICIES:
        raise ValueError(f"unknown pull policy {given!r}, expected one of {', '.join(PULL_POLICIES)}")
    is_moving = image is not None and image.tag == _MOVING_TAG
    return given or (ALWAYS if is_moving else IF_NOT_PRESENT)


class Progress(Value):
    """The progress of a pull, in bytes and in layers; what was already stored counts as done.

    *found* is the number of bytes that were stored before the pull began, by an earlier pull or for another image.
    """

    done: int
    total: int
    layers_done: int = 0
    layers: int = 0
    found: int = 0


OnProgress = Callable[[Progress], None]


class PullOptions(Value):
    """What is asked of the pull of one image, whatever the target.

    *pull_policy* is Always, IfNotPresent or Never; the default depends on the tag, as in Kubernetes. *pod* and
    *pull_secrets* are those that the image is pulled for. *credentials* are tried in the given order instead of a
    lookup; an empty sequence means an anonymous attempt. *timeout_seconds* limits each attempt. *on_progress* is called
    with the number of bytes, if the target reports it.
    """

    pull_policy: str = ""
    pod: Pod | None = None
    pull_secrets: Sequence[PullSecret] = ()
    credentials: Sequence[Credential] | None = None
    timeout_seconds: float | None = None
    on_progress: OnProgress | None = None


class PullTarget(Protocol):
    """A destination of pulls; safe to use from several threads."""

    @property
    def place(self) -> str:
        """The target's name, for messages."""

    @property
    def runtime_socket(self) -> str:
        """The path of the container runtime's socket; empty if the target is not a container runtime."""

    def find_image(self, image: str) -> StoredImage | None:
        """Return the image with that name, including its tag, or that reference; None if it is absent."""

    def list_images(self) -> Iterable[StoredImage]:
        """Return every image of the target."""

    def pull_image(
        self, image: ImageName, credential: Credential | None, options: PullOptions
    ) -> AttemptResult:
        """Pull with one credential, or anonymously; raise ContainerRuntimeError or RegistryError if it fails.

        The text of *image* includes its tag. Of the *options*, the time limit and the progress are the target's.
        """

    def close(self) -> None:
        """Stop the pulls in progress, and close the target."""


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
