"""Who may use an image of the node, and what another policy would change: questions about records, as values."""

from collections.abc import Iterable, Iterator

from keyferry._values import Value
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord
from keyferry.errors import ImageNameError
from keyferry.images.reference import normalise, trim
from keyferry.pulls.decide import Decision, PodCredentials
from keyferry.pulls.ledger import Records
from keyferry.pulls.policy import VerificationPolicy
from keyferry.pulls.present import NodeImages

__all__ = ["Access", "Change", "ImageUse", "find_access", "plan_policy"]


class Access(Value):
    """One name of one recorded image, and who may use it under that name.

    *match* says how it was found: by its ``reference``, by its ``name``, or as ``another-spelling`` of the name,
    which the kubelet keeps apart.
    """

    record: ImagePulledRecord
    name: str
    entry: ImagePullCredentials
    match: str


def find_access(records: Iterable[ImagePulledRecord], image: str) -> tuple[Access, ...]:
    """Everything recorded about an image, given by a name as pods write it or by the runtime's reference."""
    return tuple(access for record in records for access in _access(record, image))


def _access(record: ImagePulledRecord, image: str) -> Iterator[Access]:
    nobody = ImagePullCredentials()
    if record.image_ref == image and not record.credential_mapping:
        yield Access(record, "", nobody, "reference")
    for name, entry in sorted(record.credential_mapping.items()):
        match = "reference" if record.image_ref == image else _match(name, image)
        if match:
            yield Access(record, name, entry, match)


def _match(name: str, image: str) -> str:
    try:
        if trim(image) == name:
            return "name"
        return "another-spelling" if normalise(image) == normalise(name) else ""
    except ImageNameError:
        return ""


class ImageUse(Value):
    """A pod that wants an image, and what it can show for itself."""

    pod: str
    image: str
    credentials: PodCredentials = PodCredentials()


class Change(Value):
    """What is decided for one use of an image, under the policy of now and under another."""

    use: ImageUse
    image_ref: str
    before: Decision
    after: Decision

    @property
    def effect(self) -> str:
        """``same``, ``verified`` if a pull becomes necessary, ``free`` if it no longer is."""
        if self.before.must_pull == self.after.must_pull:
            return "same"
        return "verified" if self.after.must_pull else "free"


def plan_policy(
    records: Records,
    uses: Iterable[ImageUse],
    images: NodeImages,
    before: VerificationPolicy,
    after: VerificationPolicy,
) -> tuple[Change, ...]:
    """What another policy would change for pods; nothing is written."""
    changes = []
    for use in uses:
        # Without the runtime's list an image with no record is taken to be there: that is where policies differ.
        ref = images.find(use.image) or ("" if images.is_complete else use.image)
        decisions = (records.decide(use.image, ref, use.credentials, policy) for policy in (before, after))
        changes.append(Change(use, ref, *decisions))
    return tuple(changes)


def uses_of_strangers(records: Iterable[ImagePulledRecord]) -> tuple[ImageUse, ...]:
    """Every recorded name, wanted by a pod that can show nothing."""
    names = {name for record in records for name in record.credential_mapping}
    return tuple(ImageUse("a pod without credentials", name) for name in sorted(names))
