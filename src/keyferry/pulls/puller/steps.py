"""Make one image available to one pod, step by step, as the kubelet does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic

from keyferry._core.values import Value, replace
from keyferry.errors import ImageNameError, KeyferryError, RecordError
from keyferry.images.answer import Answer
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import ImageName
from keyferry.pulls.puller.backoff import BackOff
from keyferry.pulls.puller.errors import (
    absent_image_error,
    back_off_error,
    inspect_error,
    invalid_name_error,
    pull_error,
)
from keyferry.pulls.puller.outcome import PullAction, PullOutcome
from keyferry.pulls.puller.pull_policy import ALWAYS, NEVER
from keyferry.pulls.puller.target import OnProgress, PullTarget
from keyferry.pulls.records.decide import Decision, credentials_used
from keyferry.pulls.records.records import PullCounters, Records
from keyferry.pulls.stored_image import StoredImage
from keyferry.pulls.trial import AttemptResult, Renewal, Trial, renewal_from, without_frames

__all__ = ["PullContext", "PullOperation", "PullRequest"]

_NONE = StoredImage(id="")


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


class PullRequest(Value):
    """An image and the pod that needs it; *credentials* are tried instead of the result of a lookup.

    *image* is the image as given, *name* its parsed name with the default tag, or why it does not parse.
    """

    image: str
    name: ImageName | ImageNameError
    pull_policy: str
    pod: Pod | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    credentials: tuple[Credential, ...] | None = None
    timeout_seconds: float | None = None
    on_progress: OnProgress | None = None


class PullOperation:
    """One operation that makes an image available to a pod; ``run`` may be called once."""

    def __init__(self, context: PullContext, request: PullRequest) -> None:
        self._context = context
        self._request = request
        self._is_present: bool | None = None
        self._must_pull: bool | None = None
        self._decision: Decision | None = None
        self._lookup = _Lookup(self._look_up)
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
                self._request.pull_policy, present_locally=self._is_present, pull_required=self._must_pull
            )
        return replace(outcome, seconds=monotonic() - begun)

    def _ensure(self) -> PullOutcome:
        found = self._find()
        if found is not None and not self._decide(found):
            return self._outcome(PullAction.PRESENT, found)
        self._must_pull = True
        if self._request.pull_policy == NEVER:
            # Exactly the outcome of an absent image, because this pod must not learn whether the image is present.
            self._decision = None
            raise absent_image_error(self._request.image)
        credentials = self._find_credentials()
        if credentials:
            self._context.check_private()
        return self._pull(credentials)

    @property
    def _name(self) -> ImageName:
        name = self._request.name
        if isinstance(name, ImageNameError):
            raise invalid_name_error(self._request.image, name)
        return name

    def _find(self) -> StoredImage | None:
        """Return the image if it is present; None without a check if the pull policy is Always."""
        image, name = self._request.image, self._name
        if self._request.pull_policy == ALWAYS:
            return None
        try:
            found = self._context.target.find_image(name.text)
        except KeyferryError as error:
            raise inspect_error(image, error) from None
        self._is_present = found is not None
        if found is None and self._request.pull_policy == NEVER:
            raise absent_image_error(self._request.image)
        if found is None and self._context.records is not None:
            self._decision = self._context.records.decide(image, "")
        return found

    def _decide(self, found: StoredImage) -> bool:
        """Return whether an image that is present must be pulled to verify that the pod may use it."""
        self._must_pull = False
        if self._context.records is None:
            return False
        self._decision = self._context.records.decide(self._request.image, found.id, self._find_credentials)
        if self._decision.error is not None:
            self._must_pull = None
            raise self._decision.error
        return self._decision.must_pull

    def _find_credentials(self) -> tuple[Credential, ...]:
        given = self._request.credentials
        return self._lookup().credentials if given is None else given

    def _look_up(self) -> Answer:
        request = self._request
        # By its text, by which finished answers are kept: a puller looks up the same image for one pod after the other.
        image = self._name.text
        return self._context.providers.lookup(image, pod=request.pod, pull_secrets=request.pull_secrets)

    def _pull(self, credentials: Sequence[Credential]) -> PullOutcome:
        records, image = self._context.records, self._request.image
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
        back_off, key = self._context.back_off, self._back_off_key()
        left = back_off.seconds_left(key)
        if left > 0:
            raise back_off_error(self._request.image, left, back_off.last_error(key))
        back_off.begin(key)
        self._trial = Trial(self._pull_once, self._renew if self._context.evict else None)
        try:
            with self._context.slots:
                arrival = self._trial.run(credentials)
            if arrival is None:
                raise pull_error(self._request.image, tuple(self._trial.attempts))
        except KeyferryError as error:
            back_off.fail(key, error)
            raise
        return arrival

    def _pull_once(self, credential: Credential | None) -> AttemptResult:
        request = self._request
        return self._context.target.pull_image(
            self._name, credential, timeout_seconds=request.timeout_seconds, on_progress=request.on_progress
        )

    def _renew(self, refused: Credential) -> Renewal:
        """Call the provider of a refused credential again, unless that happened a moment ago."""
        if not self._context.providers.evict(self._name, refused):
            return Renewal()
        try:
            return renewal_from(self._look_up(), refused.source.name)
        except KeyferryError:
            return Renewal()

    def _back_off_key(self) -> tuple[str, str]:
        return ("" if self._request.pod is None else self._request.pod.uid), self._request.image

    @property
    def _is_conclusive(self) -> bool:
        return self._trial is None or all(attempt.is_conclusive for attempt in self._trial.attempts)

    def _note_failure(self) -> None:
        """Remove the intent, unless the image may have been pulled."""
        if self._context.records is None or not self._is_conclusive:
            return
        try:
            self._context.records.record_failed(self._request.image)
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
        trial, request = self._trial, self._request
        return PullOutcome(
            image=request.image,
            place=self._context.target.place,
            pull_policy=request.pull_policy,
            action=action,
            image_ref=found.id,
            digest=found.digest,
            size=found.size,
            attempts=() if trial is None else tuple(trial.attempts),
            decision=self._decision,
            answer=self._lookup.answer,
            record_problem=self._record_problem,
            error=error,
            renewals=() if trial is None else tuple(trial.renewals),
            name=found.name,
            manifest_digest=found.manifest_digest,
            platform=found.platform,
            layers=found.layers,
        )


class _Lookup:
    """A lookup that is made on the first call only; later calls return its answer or raise its error."""

    def __init__(self, look_up: Callable[[], Answer]) -> None:
        self._look_up = look_up
        self._error: KeyferryError | None = None
        self.answer: Answer | None = None

    def __call__(self) -> Answer:
        if self._error is not None:
            raise self._error
        if self.answer is None:
            try:
                self.answer = self._look_up()
            except KeyferryError as error:
                self._error = error
                raise
        return self.answer
