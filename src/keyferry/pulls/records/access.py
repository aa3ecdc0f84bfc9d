"""Find out from the records which pods may use an image of the node, and the effect of another policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord
from keyferry.errors import ImageNameError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.reference import normalise, trim
from keyferry.pulls.records.decision import Decision, DecisionRule, PodCredentials
from keyferry.pulls.records.node_images import NodeImages
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records

__all__ = [
    "Access",
    "AccessMatch",
    "Change",
    "ImageUse",
    "PolicyEffect",
    "UseOutcome",
    "find_access",
    "judge_use",
    "plan_policy",
]


class UseOutcome(StrEnum):
    """The outcome for a pod that needs an image: it is used without a pull, it is pulled, or that is not known."""

    USE = "use"
    PULL = "pull"
    UNKNOWN = "unknown"


def judge_use(decision: Decision, missing: Iterable[MissingInput]) -> UseOutcome:
    """Return the outcome of *decision*; ``UNKNOWN`` if one of the *missing* inputs could change it."""
    inputs = tuple(missing)
    if any(each.input is LookupInput.IMAGES for each in inputs) and not decision.must_pull:
        return UseOutcome.UNKNOWN
    if decision.rule is DecisionRule.STRANGER and any(_may_show(decision, each) for each in inputs):
        return UseOutcome.UNKNOWN
    return UseOutcome.PULL if decision.must_pull else UseOutcome.USE


def _may_show(decision: Decision, missing: MissingInput) -> bool:
    """Return whether the missing input may be a credential that the image was pulled with."""
    record = decision.record
    entry = record.credential_mapping.get(trim(decision.situation.image)) if record is not None else None
    if entry is None:
        return False
    if missing.input in (LookupInput.PULL_SECRET, LookupInput.ACCOUNT_SECRETS):
        return bool(entry.kubernetes_secrets)
    if missing.input in (LookupInput.SERVICE_ACCOUNT, LookupInput.SERVICE_ACCOUNT_TOKEN):
        accounts = entry.kubernetes_service_accounts
        return missing.name in {f"{account.namespace}/{account.name}" for account in accounts}
    return missing.input is LookupInput.POD


class AccessMatch(StrEnum):
    """The property by which a record was found: its reference, its name, or another spelling of the name.

    The kubelet treats spellings as different names.
    """

    REFERENCE = "reference"
    NAME = "name"
    ANOTHER_SPELLING = "another-spelling"


class Access(Value):
    """One name of a recorded image, and the credentials that may use it; *match* is how the record was found."""

    record: ImagePulledRecord
    name: str
    entry: ImagePullCredentials
    match: AccessMatch


def find_access(records: Iterable[ImagePulledRecord], image: str) -> tuple[Access, ...]:
    """Return all record entries of an image, which is a name from a pod or a runtime's reference."""
    return tuple(access for record in records for access in _access(record, image))


def _access(record: ImagePulledRecord, image: str) -> Iterator[Access]:
    nobody = ImagePullCredentials()
    if record.image_ref == image and not record.credential_mapping:
        yield Access(record=record, name="", entry=nobody, match=AccessMatch.REFERENCE)
    for name, entry in sorted(record.credential_mapping.items()):
        match = AccessMatch.REFERENCE if record.image_ref == image else _match(name, image)
        if match is not None:
            yield Access(record=record, name=name, entry=entry, match=match)


def _match(name: str, image: str) -> AccessMatch | None:
    try:
        if trim(image) == name:
            return AccessMatch.NAME
        return AccessMatch.ANOTHER_SPELLING if normalise(image) == normalise(name) else None
    except ImageNameError:
        return None


class ImageUse(Value):
    """A pod that needs an image, and its credentials; *missing* are inputs that may supply further ones."""

    pod: str
    image: str
    credentials: PodCredentials = PodCredentials()
    missing: tuple[MissingInput, ...] = ()


class PolicyEffect(StrEnum):
    """The effect of another policy on a use of an image: it must now be verified, or no longer."""

    SAME = "same"
    VERIFIED = "verified"
    FREE = "free"
    UNKNOWN = "unknown"


class Change(Value):
    """The decisions for one use of an image, under the current policy and under another.

    *missing* are the inputs that were not given and may change either decision.
    """

    use: ImageUse
    image_ref: str
    before: Decision
    after: Decision
    missing: tuple[MissingInput, ...] = ()

    @property
    def now(self) -> UseOutcome:
        """The outcome under the current policy."""
        return judge_use(self.before, self.missing)

    @property
    def then(self) -> UseOutcome:
        """The outcome under the other policy."""
        return judge_use(self.after, self.missing)

    @property
    def effect(self) -> PolicyEffect:
        """The effect of the other policy."""
        # An input that changes one of two decisions by the same rule also changes the other.
        if self.now is self.then and (
            self.now is not UseOutcome.UNKNOWN or self.before.rule == self.after.rule
        ):
            return PolicyEffect.SAME
        if UseOutcome.UNKNOWN in (self.now, self.then):
            return PolicyEffect.UNKNOWN
        return PolicyEffect.VERIFIED if self.after.must_pull else PolicyEffect.FREE


def plan_policy(
    records: Records,
    uses: Iterable[ImageUse],
    images: NodeImages,
    before: VerificationPolicy,
    after: VerificationPolicy,
) -> tuple[Change, ...]:
    """Return the decisions for each use under two policies; nothing is written."""
    changes = []
    for use in uses:
        ref, missing = images.find(use.image), use.missing
        if not ref and not images.is_complete:
            # It is not known whether the image is present. Policies differ only if it is, so that is assumed.
            ref, missing = use.image, (*missing, MissingInput(input=LookupInput.IMAGES, name=use.image))
        now, then = (records.decide(use.image, ref, use.credentials, policy) for policy in (before, after))
        changes.append(Change(use=use, image_ref=ref, before=now, after=then, missing=missing))
    return tuple(changes)


def uses_without_credentials(records: Iterable[ImagePulledRecord]) -> tuple[ImageUse, ...]:
    """Return a use of every recorded name by a pod without credentials."""
    names = {name for record in records for name in record.credential_mapping}
    return tuple(ImageUse(pod="a pod without credentials", image=name) for name in sorted(names))
