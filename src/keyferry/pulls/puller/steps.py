"""One pod's need of one image, step by step, as the kubelet goes about it."""

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
from keyferry.images.reference import with_default_tag
from keyferry.pulls.puller.backoff import BackOff
from keyferry.pulls.puller.errors import absent, backing_off, misnamed, pull_failed, uninspected
from keyferry.pulls.puller.outcome import FAILED, PRESENT, PULLED, PullOutcome
from keyferry.pulls.puller.pull_policy import ALWAYS, NEVER
from keyferry.pulls.puller.target import Arrival, FoundImage, OnProgress, PullTarget
from keyferry.pulls.puller.trial import CredentialTrial, Renewal, bare, fresh_from, saw_the_end
from keyferry.pulls.records.counters import PullCounters
from keyferry.pulls.records.decide import credentials_used
from keyferry.pulls.records.records import Records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.records.decision import Decision

__all__ = ["Ensuring", "Need", "Tools"]


class Tools(Value):
    """What a puller works with; *records* is None where nobody keeps any.

    *refuse* raises if an image that takes a credential must not be brought to the target.
    """

    target: PullTarget
    providers: Providers
    records: Records | None
    counters: PullCounters
    back_off: BackOff
    slots: AbstractContextManager[object]
    evict: bool
    refuse: Callable[[], None]


class Need(Value):
    """A pod's need of an image."""

    image: str
    pull_policy: str
    pod: Pod | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    timeout_seconds: float | None = None
    on_progress: OnProgress | None = None


class Ensuring:
    """See to it that an image is there, and that the pod may use it; for one use."""

    def __init__(self, tools: Tools, need: Need) -> None:
        self._tools = tools
        self._need = need
        self._name = need.image
        self._is_present: bool | None = None
        self._must_pull: bool | None = None
        self._decision: Decision | None = None
        self._credentials = _Lookup(self._look_up)
        self._trial: CredentialTrial | None = None
        self._record_problem: RecordError | None = None

    def run(self) -> PullOutcome:
        """Do it; whatever keyferry itself raises is part of the outcome."""
        begun = monotonic()
        try:
            outcome = self._ensure()
        except KeyferryError as error:
            outcome = self._outcome(FAILED, error=bare(error))
        finally:
            self._tools.counters.count_request(
                self._need.pull_policy, present_locally=self._is_present, pull_required=self._must_pull
            )
        return replace(outcome, seconds=monotonic() - begun)

    def _ensure(self) -> PullOutcome:
        found = self._find()
        if found is not None and not self._decide(found):
            return self._outcome(PRESENT, found)
        self._must_pull = True
        if self._need.pull_policy == NEVER:
            # As if it were absent, to the last word: whether it is there is nothing this pod may learn.
            self._decision = None
            raise absent(self._need.image)
        credentials = self._credentials().credentials
        if credentials:
            self._tools.refuse()
        return self._pull(credentials)

    def _find(self) -> FoundImage | None:
        """The image, if the policy lets us look and it is there."""
        image = self._need.image
        try:
            self._name = with_default_tag(image)
        except ImageNameError as error:
            raise misnamed(image, error) from None
        if self._need.pull_policy == ALWAYS:
            return None
        try:
            found = self._tools.target.find_image(self._name)
        except KeyferryError as error:
            raise uninspected(image, error) from None
        self._is_present = found is not None
        if found is None and self._need.pull_policy == NEVER:
            raise absent(self._need.image)
        if found is None and self._tools.records is not None:
            self._decision = self._tools.records.decide(image, "")
        return found

    def _decide(self, found: FoundImage) -> bool:
        """Tell whether an image that is there must be pulled all the same, to see whether this pod may have it."""
        self._must_pull = False
        if self._tools.records is None:
            return False
        self._decision = self._tools.records.decide(
            self._need.image, found.id, lambda: self._credentials().credentials
        )
        if self._decision.error is not None:
            self._must_pull = None
            raise self._decision.error
        return self._decision.must_pull

    def _look_up(self) -> Answer:
        need = self._need
        return self._tools.providers.lookup(self._name, pod=need.pod, pull_secrets=need.pull_secrets)

    def _pull(self, credentials: Sequence[Credential]) -> PullOutcome:
        records, image = self._tools.records, self._need.image
        if records is not None:
            records.record_intent(image)
        try:
            arrival = self._fetch(credentials)
        except KeyferryError:
            # Anything else, an interrupt or the end of the process, leaves the intent: the image may be there.
            self._note_failure()
            raise
        assert self._trial is not None  # noqa: S101 - it is made before anything can arrive
        used = self._trial.attempts[-1].credential
        recorded = None
        if records is not None:
            try:
                records.record_pulled(image, arrival.image_ref, used)
                recorded = credentials_used(used)
            except RecordError as error:
                self._record_problem = error
        found = self._describe(arrival)
        self._tools.back_off.sweep()
        return self._outcome(PULLED, found, image_ref=arrival.image_ref, used=used, recorded=recorded)

    def _fetch(self, credentials: Sequence[Credential]) -> Arrival:
        back_off, key = self._tools.back_off, self._back_off_key()
        left = back_off.seconds_left(key)
        if left > 0:
            raise backing_off(self._need.image, left, back_off.last_error(key))
        back_off.begin(key)
        self._trial = CredentialTrial(self._pull_once, self._renew if self._tools.evict else None)
        try:
            with self._tools.slots:
                arrival = self._trial.run(credentials)
            if arrival is None:
                raise pull_failed(self._need.image, tuple(self._trial.attempts))
        except KeyferryError as error:
            back_off.fail(key, error)
            raise
        return arrival

    def _pull_once(self, credential: Credential | None) -> Arrival:
        need = self._need
        return self._tools.target.pull_image(
            self._name, credential, timeout_seconds=need.timeout_seconds, on_progress=need.on_progress
        )

    def _renew(self, refused: Credential) -> Renewal:
        """Have the provider of a refused credential asked anew, unless that was done a moment ago."""
        if not self._tools.providers.evict(self._name, refused):
            return Renewal()
        try:
            return fresh_from(self._look_up(), refused.source.name)
        except KeyferryError:
            return Renewal()

    def _back_off_key(self) -> tuple[str, str]:
        return ("" if self._need.pod is None else self._need.pod.uid), self._need.image

    def _note_failure(self) -> None:
        """Take the intent back, unless the runtime was not heard to the end."""
        if self._tools.records is None or (self._trial and not saw_the_end(self._trial.attempts)):
            return
        try:
            self._tools.records.record_failed(self._need.image)
        except RecordError as error:
            self._record_problem = error

    def _describe(self, arrival: Arrival) -> FoundImage | None:
        try:
            return self._tools.target.find_image(arrival.image_ref)
        except KeyferryError:
            return None  # it is there; its size and digest are a courtesy

    def _outcome(self, action: str, found: FoundImage | None = None, **more: object) -> PullOutcome:
        trial = self._trial
        values: dict[str, object] = {
            "image_ref": "" if found is None else found.id,
            "digest": "" if found is None else _digest(found),
            "size": 0 if found is None else found.size,
            "attempts": () if trial is None else tuple(trial.attempts),
            "renewals": () if trial is None else tuple(trial.renewals),
            "decision": self._decision,
            "answer": self._credentials.answer,
            "record_problem": self._record_problem,
        }
        need = self._need
        values |= more
        return PullOutcome(need.image, self._tools.target.place, need.pull_policy, action, **values)  # type: ignore[arg-type] # by name


class _Lookup:
    """A look-up that is made at most once, and no earlier than it is needed; so is its error."""

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


def _digest(found: FoundImage) -> str:
    return found.digests[0].partition("@")[2] if found.digests else ""
