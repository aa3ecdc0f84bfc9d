"""The result of a lookup: credentials in order, failures, and missing inputs."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.errors import KeyferryError
from keyferry.images.credential import Credential
from keyferry.images.missing import LookupInput, MissingInput, distinct
from keyferry.images.provider.provision import Provision, ProvisionOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.api.kubeletconfig.v1 import CredentialProvider
    from keyferry.images.keyring import Keyring


class LookupOutcome(StrEnum):
    """What the kubelet does next: it tries credentials, makes one anonymous attempt, or it is unknown."""

    CREDENTIALS = "credentials"
    ANONYMOUS = "anonymous"
    ANONYMOUS_AFTER_FAILURE = "anonymous-after-failure"
    UNKNOWN = "unknown"


class Failure(Value):
    """A provider that matched and failed; Kubernetes only logs it, here it is part of the answer."""

    provider: str
    error: KeyferryError
    kubernetes_text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return str(self.error)


class LookupResult(Value):
    """Credentials for an image, in the order the kubelet would try them, and the values they follow from.

    ``image`` is the image as given, ``name`` its normalised form, which patterns and
    keys are compared with. ``covering`` pairs the index of each provider that
    matched with its first pattern that covers the image; ``provisions`` are their answers.
    ``keyrings`` hold all credentials that were found: pull secrets, node config, providers.
    ``untold`` are the inputs that the caller knows to be missing; see ``missing``.
    ``answered_ns`` is the instant of the answer, on the same clock as the expiry of provisions.
    """

    image: str
    name: str
    credentials: tuple[Credential, ...]
    provisions: tuple[Provision, ...]
    covering: tuple[tuple[int, str], ...]
    providers: tuple[CredentialProvider, ...] = field(repr=False)
    keyrings: tuple[Keyring, ...] = field(default=(), repr=False)
    untold: tuple[MissingInput, ...] = ()
    answered_ns: int = field(default=0, repr=False)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The providers that matched and failed, including those that lacked an input for this pod."""
        return tuple(_failure(provision) for provision in self.provisions if provision.error is not None)

    @property
    def kubelet_failures(self) -> tuple[Failure, ...]:
        """The failures that a kubelet would have too, without those due to an input that was not given."""
        return tuple(
            _failure(provision)
            for provision in self.provisions
            if provision.outcome is ProvisionOutcome.FAILED
        )

    @property
    def missing(self) -> tuple[MissingInput, ...]:
        """The inputs that a kubelet knows and that were not given; they may change the answer."""
        found = distinct(self.untold, *(provision.missing for provision in self.provisions))
        # A docker config that may exist says least, and is named last.
        return tuple(sorted(found, key=_is_possible_file)) if found else found

    @property
    def outcome(self) -> LookupOutcome:
        """What the kubelet does with the result."""
        if self.credentials:
            return LookupOutcome.CREDENTIALS
        if self.missing:
            return LookupOutcome.UNKNOWN
        return LookupOutcome.ANONYMOUS_AFTER_FAILURE if self.kubelet_failures else LookupOutcome.ANONYMOUS


def _is_possible_file(missing: MissingInput) -> bool:
    return missing.input is LookupInput.DOCKER_CONFIG and not missing.name


def _failure(provision: Provision) -> Failure:
    assert provision.error is not None  # noqa: S101 - what failed has one
    return Failure(provision.provider, provision.error, provision.kubernetes_text)
