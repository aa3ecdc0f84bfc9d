"""Find out from the records which pods may use an image of the node, and the effect of another policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from keyferry._core.json import loads
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord
from keyferry.errors import DocumentError, EnvironmentProblem, ImageNameError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.reference import normalise, parse_image, trim
from keyferry.pulls.records.decide import Decision, DecisionRule, PodCredentials
from keyferry.pulls.records.format import shorten
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import PresentImage, Records


class NodeImage(Value):
    """An image of the runtime, with all its names."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def parse_crictl_images(data: bytes, source: str) -> tuple[NodeImage, ...]:
    """Parse the output of ``crictl images -o json``; raise EnvironmentProblem if it is anything else."""
    if not data.strip():
        raise EnvironmentProblem(f"{source}: is empty, expected the output of 'crictl images -o json'")
    try:
        document = loads(data)
    except DocumentError as error:
        raise EnvironmentProblem(f"{source}: {error}") from None
    images = document.get("images") if isinstance(document, dict) else None
    if not isinstance(images, list):
        raise EnvironmentProblem(
            f"{source}: there is no list 'images', expected the output of 'crictl images -o json'"
        )
    return tuple(_read_image(each, f"{source}: images[{at}]") for at, each in enumerate(images))


def _read_image(fields: object, where: str) -> NodeImage:
    if not isinstance(fields, dict) or not isinstance(fields.get("id"), str) or not fields["id"]:
        raise EnvironmentProblem(f"{where}: there is no 'id', expected the output of 'crictl images -o json'")
    return NodeImage(
        id=fields["id"], tags=_names(fields, "repoTags", where), digests=_names(fields, "repoDigests", where)
    )


def _names(fields: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    names = fields.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EnvironmentProblem(f"{where}.{key}: expected a list of names")
    return tuple(names)


class NodeImages:
    """The runtime's references of the images of a node, from the runtime's list or else from the records."""

    def __init__(
        self, records: Iterable[ImagePulledRecord], images: Iterable[PresentImage] | None = None
    ) -> None:
        self.is_complete = images is not None
        self._by_name: dict[str, str] = {}
        self._ids: set[str] = set()
        # Oldest first, so that of several records under one name the latest counts.
        for record in sorted(records, key=lambda each: each.last_updated_ns):
            self._ids.add(record.image_ref)
            self._by_name |= dict.fromkeys(map(_without_tag, record.credential_mapping), record.image_ref)
        if images is not None:
            self._by_name, self._ids = {}, set()
            for image in images:
                self._ids.add(image.id)
                self._by_name |= dict.fromkeys(map(_in_full, (*image.tags, *image.digests)), image.id)

    def find(self, image: str) -> str:
        """Return the reference of *image*; empty if it is absent or not known."""
        if image in self._ids:
            return image
        name = _in_full(image) if self.is_complete else _without_tag(image)
        return self._by_name.get(name, "")


def _in_full(image: str) -> str:
    try:
        name = parse_image(image)
    except ImageNameError:
        return image
    # A digest identifies the image, so a tag before it is ignored.
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.tag}"


def _without_tag(image: str) -> str:
    try:
        return normalise(trim(image))
    except ImageNameError:
        return image


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


def entry_document(entry: ImagePullCredentials, *, reveal: bool = False) -> dict[str, object]:
    """Return who may use an image under one name, as a document; hashes are shortened unless *reveal* is set."""
    return {
        "everyPodOfTheNode": entry.node_pods_accessible,
        "secrets": [
            {
                "namespace": secret.namespace,
                "name": secret.name,
                "uid": secret.uid,
                "credentialHash": secret.credential_hash if reveal else shorten(secret.credential_hash),
            }
            for secret in entry.kubernetes_secrets
        ],
        "serviceAccounts": [
            {"namespace": account.namespace, "name": account.name, "uid": account.uid}
            for account in entry.kubernetes_service_accounts
        ],
    }


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
