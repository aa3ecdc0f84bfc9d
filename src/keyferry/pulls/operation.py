"""Make one image available to one pod, step by step, as the kubelet does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry._core.gotext import quote
from keyferry._core.values import Value, replace
from keyferry.api.codec import aggregate
from keyferry.errors import (
    ContainerRuntimeError,
    ImageNameError,
    ImagePullError,
    KeyferryError,
    Kind,
    KubeletReason,
    RecordError,
)
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.manifest import StoredImage
from keyferry.pulls.records.decide import Decision, credentials_used
from keyferry.pulls.records.records import PullCounters, Records
from keyferry.pulls.request import (
    ALWAYS,
    NEVER,
    PullAction,
    PullOptions,
    PullOutcome,
    PullTarget,
    choose_pull_policy,
)
from keyferry.pulls.trial import (
    Attempt,
    AttemptResult,
    Renewal,
    Trial,
    kind_of,
    most_telling,
    renewal_from,
    without_frames,
)

Key = tuple[str, str]

_SECOND_NS = 1_000_000_000
# An entry is dropped after this many times the longest wait without a failure.
_FORGET_AFTER = 2
_NONE = StoredImage(id="")
# The beginnings of a runtime's message that replace an error code, and the kubelet's text for each. The CRI has no
# field for them, so the kubelet, too, checks how the message begins.
_MARKS = (
    (KubeletReason.REGISTRY_UNAVAILABLE, "the registry is unavailable"),
    (KubeletReason.SIGNATURE_VALIDATION_FAILED, "the signature validation failed"),
)


class _Entry:
    __slots__ = ("error", "failed_ns", "wait_ns")

    def __init__(self, wait_ns: int, failed_ns: int, error: KeyferryError | None) -> None:
        self.wait_ns = wait_ns
        self.failed_ns = failed_ns
        self.error = error


class BackOff:
    """The kubelet's back-off: 10 seconds after the first failure, doubled after each further one, at most 300.

    A success does not reset it; only the passage of time does. Safe to use from many threads.
    """

    def __init__(
        self,
        first_seconds: float = 10.0,
        longest_seconds: float = 300.0,
        *,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._first_ns = round(first_seconds * _SECOND_NS)
        self._longest_ns = round(longest_seconds * _SECOND_NS)
        self._clock = clock
        self._lock = Lock()
        self._entries: dict[Key, _Entry] = {}

    def seconds_left(self, key: Key) -> float:
        """Return the number of seconds that a pull must still wait; 0 if it may start."""
        with self._lock:
            entry = self._live(key)
            return 0.0 if entry is None else max(0, entry.wait_ns - self._age_ns(entry)) / _SECOND_NS

    def last_error(self, key: Key) -> KeyferryError | None:
        """Return the error of the last pull, or None if it did not fail or another one has begun since."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.error

    def begin(self, key: Key) -> None:
        """Note that a pull begins, and drop the error of the last one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.error = None

    def fail(self, key: Key, error: KeyferryError) -> None:
        """Note that a pull failed with *error*."""
        with self._lock:
            entry = self._live(key)
            wait_ns = self._first_ns if entry is None else min(2 * entry.wait_ns, self._longest_ns)
            self._entries[key] = _Entry(wait_ns, self._clock(), error)

    def sweep(self) -> None:
        """Drop the entries that are old enough."""
        with self._lock:
            self._entries = {key: entry for key, entry in self._entries.items() if not self._is_old(entry)}

    def _live(self, key: Key) -> _Entry | None:
        entry = self._entries.get(key)
        return None if entry is None or self._is_old(entry) else entry

    def _is_old(self, entry: _Entry) -> bool:
        return self._age_ns(entry) > _FORGET_AFTER * self._longest_ns

    def _age_ns(self, entry: _Entry) -> int:
        return self._clock() - entry.failed_ns


class PullContext(Value):
    """The objects that all operations of a puller share; *records* is None if no records are kept.

    *check_private* raises if the target must not receive an image that requires a credential.
    """

    target: PullTarget
    providers: Providers
    records: Records | None
    counters: PullCounters
    back_off: BackOff
    slots: AbstractContextManager[object]
    evict: bool
    check_private: Callable[[], None]


class PullOperation:
    """One operation that makes an image available to a pod; ``run`` may be called once."""

    def __init__(self, context: PullContext, image: str | ImageName, options: PullOptions) -> None:
        self._context = context
        self._image = image.text if isinstance(image, ImageName) else image
        self._options = options
        self._wrong_name: ImageNameError | None = None
        known = None
        try:
            known = self._name = parse_image(image).with_default_tag()
        except ImageNameError as error:
            self._wrong_name = error
        self._pull_policy = choose_pull_policy(options.pull_policy, known)
        self._is_present: bool | None = None
        self._must_pull: bool | None = None
        self._decision: Decision | None = None
        self._answer: Answer | None = None
        self._trial: Trial | None = None
        self._record_problem: RecordError | None = None

    def run(self) -> PullOutcome:
        """Run the operation; a KeyferryError becomes part of the outcome."""
        begun = monotonic()
        try:
            outcome = self._ensure()
        except KeyferryError as error:
            outcome = self._outcome(PullAction.FAILED, error=without_frames(error))
        finally:
            self._context.counters.count_request(
                self._pull_policy, present_locally=self._is_present, pull_required=self._must_pull
            )
        return replace(outcome, seconds=monotonic() - begun)

    def _ensure(self) -> PullOutcome:
        if self._wrong_name is not None:
            raise invalid_name_error(self._image, self._wrong_name)
        found = self._find()
        if found is not None and not self._decide(found):
            return self._outcome(PullAction.PRESENT, found)
        self._must_pull = True
        if self._pull_policy == NEVER:
            # Exactly the outcome of an absent image, because this pod must not learn whether the image is present.
            self._decision = None
            raise absent_image_error(self._image)
        credentials = self._find_credentials()
        if credentials:
            self._context.check_private()
        return self._pull(credentials)

    def _find(self) -> StoredImage | None:
        """Return the image if it is present; None without a check if the pull policy is Always."""
        if self._pull_policy == ALWAYS:
            return None
        try:
            found = self._context.target.find_image(self._name.text)
        except KeyferryError as error:
            raise inspect_error(self._image, error) from None
        self._is_present = found is not None
        if found is None and self._pull_policy == NEVER:
            raise absent_image_error(self._image)
        if found is None and self._context.records is not None:
            self._decision = self._context.records.decide(self._image, "")
        return found

    def _decide(self, found: StoredImage) -> bool:
        """Return whether an image that is present must be pulled to verify that the pod may use it."""
        self._must_pull = False
        if self._context.records is None:
            return False
        self._decision = self._context.records.decide(self._image, found.id, self._find_credentials)
        if self._decision.error is not None:
            self._must_pull = None
            raise self._decision.error
        return self._decision.must_pull

    def _find_credentials(self) -> Sequence[Credential]:
        """Return the credentials that are given, else those of a lookup, which is made once."""
        if self._options.credentials is not None:
            return self._options.credentials
        if self._answer is None:
            self._answer = self._look_up()
        return self._answer.credentials

    def _look_up(self) -> Answer:
        return self._context.providers.lookup(
            self._name, pod=self._options.pod, pull_secrets=tuple(self._options.pull_secrets)
        )

    def _pull(self, credentials: Sequence[Credential]) -> PullOutcome:
        records, image = self._context.records, self._image
        if records is not None:
            records.record_intent(image)
        try:
            arrival = self._fetch(credentials)
        except KeyferryError:
            # Any other exception, such as an interrupt, keeps the intent, because the image may have been pulled.
            self._note_failure()
            raise
        assert self._trial is not None  # noqa: S101 - _fetch sets it before it returns
        used = self._trial.attempts[-1].credential
        recorded = None
        if records is not None:
            try:
                records.record_pulled(image, arrival.image_ref, used)
                recorded = credentials_used(used)
            except RecordError as error:
                self._record_problem = error
        found = arrival.stored or self._describe(arrival.image_ref)
        self._context.back_off.sweep()
        return replace(
            self._outcome(PullAction.PULLED, found),
            image_ref=arrival.image_ref,
            digest=arrival.digest or found.digest,
            used=used,
            recorded=recorded,
        )

    def _fetch(self, credentials: Sequence[Credential]) -> AttemptResult:
        pod, back_off = self._options.pod, self._context.back_off
        key = ("" if pod is None else pod.uid, self._image)
        left = back_off.seconds_left(key)
        if left > 0:
            raise back_off_error(self._image, left, back_off.last_error(key))
        back_off.begin(key)
        self._trial = Trial(self._pull_once, self._renew if self._context.evict else None)
        try:
            with self._context.slots:
                arrival = self._trial.run(credentials)
            if arrival is None:
                raise pull_error(self._image, tuple(self._trial.attempts))
        except KeyferryError as error:
            back_off.fail(key, error)
            raise
        return arrival

    def _pull_once(self, credential: Credential | None) -> AttemptResult:
        return self._context.target.pull_image(self._name, credential, self._options)

    def _renew(self, refused: Credential) -> Renewal:
        """Call the provider of a refused credential again, unless that happened a moment ago."""
        if not self._context.providers.evict(self._name, refused):
            return Renewal()
        try:
            return renewal_from(self._look_up(), refused.source.name)
        except KeyferryError:
            return Renewal()

    def _note_failure(self) -> None:
        """Remove the intent, unless the image may have been pulled."""
        attempts = () if self._trial is None else self._trial.attempts
        if self._context.records is None or not all(attempt.is_conclusive for attempt in attempts):
            return
        try:
            self._context.records.record_failed(self._image)
        except RecordError as error:
            self._record_problem = error

    def _describe(self, image_ref: str) -> StoredImage:
        try:
            return self._context.target.find_image(image_ref) or _NONE
        except KeyferryError:
            return _NONE  # the image is present; only its size and digest remain unknown

    def _outcome(
        self, action: PullAction, found: StoredImage = _NONE, error: KeyferryError | None = None
    ) -> PullOutcome:
        trial = self._trial
        return PullOutcome(
            image=self._image,
            place=self._context.target.place,
            pull_policy=self._pull_policy,
            action=action,
            image_ref=found.id,
            digest=found.digest,
            size=found.size,
            attempts=() if trial is None else tuple(trial.attempts),
            decision=self._decision,
            answer=self._answer,
            record_problem=self._record_problem,
            error=error,
            renewals=() if trial is None else tuple(trial.renewals),
            name=found.name,
            manifest_digest=found.manifest_digest,
            platform=found.platform,
            layers=found.layers,
        )


def invalid_name_error(image: str, error: ImageNameError) -> ImagePullError:
    """Return the error for an image name that cannot be parsed."""
    text = f"Failed to apply default image tag {quote(image)}: {error.kubernetes_text}"
    return ImagePullError(image, KubeletReason.INVALID_IMAGE_NAME, error.message, text, Kind.NAME, (error,))


def inspect_error(image: str, error: KeyferryError) -> ImagePullError:
    """Return the error for a target that cannot be asked whether it has the image."""
    message = f"cannot determine whether {image!r} is present: {error}"
    # Where the image should be named, the kubelet writes the reference, which is still empty.
    text = f'Failed to inspect image "": {error.kubernetes_text or error}'
    reason = KubeletReason.IMAGE_INSPECT_ERROR
    return ImagePullError(image, reason, message, text, kind_of(error), (error,))


def absent_image_error(image: str) -> ImagePullError:
    """Return the error for an image that is absent, or hidden from the pod, and must not be pulled."""
    text = f"Container image {quote(image)} is not present with pull policy of Never"
    message = f"{image!r} is not present, and the pull policy is Never"
    return ImagePullError(image, KubeletReason.ERR_IMAGE_NEVER_PULL, message, text, Kind.ABSENT)


def back_off_error(image: str, seconds_left: float, before: KeyferryError | None) -> ImagePullError:
    """Return the error for a pull that must wait, because an earlier one failed."""
    message = f"waiting another {seconds_left:.0f} s before {image!r} is pulled again"
    text = f"Back-off pulling image {quote(image)}"
    if before is None:
        return ImagePullError(image, KubeletReason.IMAGE_PULL_BACK_OFF, message, text)
    reason = KubeletReason.ERR_IMAGE_PULL
    failures: tuple[KeyferryError, ...] = (before,)
    if isinstance(before, ImagePullError):
        reason, failures = before.kubelet_reason, before.failures
    text += f": {reason}: {before.kubernetes_text}"
    message += f"; the last error: {before}"
    back_off = KubeletReason.IMAGE_PULL_BACK_OFF
    return ImagePullError(image, back_off, message, text, kind_of(before), failures)


def pull_error(image: str, attempts: tuple[Attempt, ...]) -> ImagePullError:
    """Return the error for a pull in which no attempt succeeded; it contains the response to each."""
    failures = tuple(attempt.error for attempt in attempts if attempt.error is not None)
    said = "; ".join(f"{attempt.who}: {attempt.said}" for attempt in attempts)
    reason, text = _kubelet_words(image, aggregate(map(_kubernetes_text, failures)))
    kind = most_telling(attempts).kind or Kind.ERROR
    return ImagePullError(image, reason, f"cannot pull {image!r}: {said}", text, kind, failures)


def _kubernetes_text(error: KeyferryError) -> str:
    # For a pull, the kubelet leaves out the code UNKNOWN.
    if isinstance(error, ContainerRuntimeError) and error.code == "UNKNOWN":
        return error.message
    return error.kubernetes_text


def _kubelet_words(image: str, text: str) -> tuple[KubeletReason, str]:
    for mark, because in _MARKS:
        if text.startswith(mark):
            return mark, f"image pull failed for {image} because {because}{text.removeprefix(mark)}"
    return KubeletReason.ERR_IMAGE_PULL, text
