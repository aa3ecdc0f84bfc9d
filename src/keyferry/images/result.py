"""What a look-up comes to: credentials in order, failures, and what is missing."""

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import KeyferryError
from keyferry.images.keyring import Credential, Keyring
from keyferry.images.missing import MissingInput, distinct
from keyferry.images.provider.provision import Provision, ProvisionOutcome


class LookupOutcome(StrEnum):
    """What the kubelet does: try credentials, make one anonymous attempt, or nobody can tell."""

    CREDENTIALS = "credentials"
    ANONYMOUS = "anonymous"
    ANONYMOUS_AFTER_FAILURE = "anonymous-after-failure"
    UNKNOWN = "unknown"


class Failure(Value):
    """A provider that matched and failed. Kubernetes logs it and goes on; here it is part of the answer."""

    provider: str
    error: KeyferryError
    kubernetes_text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return str(self.error)


class LookupResult(Value):
    """Credentials for an image, in the order the kubelet would try them, and how they came about: values alone.

    ``image`` is what was asked, ``name`` the normalised form that patterns and
    keys are compared with. ``covering`` pairs the index of each provider that
    matched with its first covering pattern; ``provisions`` is what they gave.
    ``keyrings`` hold everything that was on offer: pull secrets, node config, providers.
    ``untold`` is what the asker knows to be missing: see ``missing``.
    ``answered_ns`` is when it was given, on the clock that the provisions' expiry is told in.
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
        """The providers that matched and failed, and why; also those that could not be asked for this pod."""
        return tuple(_failure(provision) for provision in self.provisions if provision.error is not None)

    @property
    def kubelet_failures(self) -> tuple[Failure, ...]:
        """Those that a kubelet would have too: not what only an input that was not given keeps from being asked."""
        return tuple(
            _failure(provision)
            for provision in self.provisions
            if provision.outcome is ProvisionOutcome.FAILED
        )

    @property
    def missing(self) -> tuple[MissingInput, ...]:
        """What the kubelet knows and was not given here: with it the answer may be another one."""
        return distinct(self.untold, *(provision.missing for provision in self.provisions))

    @property
    def outcome(self) -> LookupOutcome:
        """What the kubelet does with it."""
        if self.credentials:
            return LookupOutcome.CREDENTIALS
        if self.missing:
            return LookupOutcome.UNKNOWN
        return LookupOutcome.ANONYMOUS_AFTER_FAILURE if self.kubelet_failures else LookupOutcome.ANONYMOUS


def _failure(provision: Provision) -> Failure:
    assert provision.error is not None  # noqa: S101 - what failed has one
    return Failure(provision.provider, provision.error, provision.kubernetes_text)
