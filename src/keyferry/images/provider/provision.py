"""What one provider gave for one image, and how it came by it."""

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.errors import KeyferryError
from keyferry.images.missing import MissingInput
from keyferry.images.provider.accounts import ServiceAccountRef
from keyferry.images.provider.cache import Auth


class ProvisionOutcome(StrEnum):
    """How a provider came by its answer."""

    CACHED = "cached"
    RAN = "ran"
    SHARED = "shared"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Provision(Value):
    """A provider's answer for one image, and how it came about.

    *missing* is what the kubelet would have told the provider and we were not told: with it the answer may differ.
    """

    provider: str
    outcome: ProvisionOutcome
    auth: Auth = field(default_factory=dict, repr=False)
    cache_key_type: str = ""
    expires_ns: int | None = None
    seconds: float | None = None
    account: ServiceAccountRef | None = None
    skipped: str = ""
    error: KeyferryError | None = None
    kubernetes_text: str = field(default="", repr=False)
    missing: tuple[MissingInput, ...] = ()
