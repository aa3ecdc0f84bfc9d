"""What one provider gave for one image, and how it came by it."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from keyferry._core.values import Value, field, replace
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import KeyferryError
from keyferry.images.keyring import Keyring, ServiceAccountRef, Source, SourceKind
from keyferry.images.missing import MissingInput

Auth = Mapping[str, AuthConfig]


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

    @cached_property
    def keyring(self) -> Keyring:
        """What it gave, by auth key; made once, for all images that it is given for."""
        keyring = Keyring()
        source = Source(SourceKind.PROVIDER, self.provider, None, self.account)
        keyring.add(source, ((key, each.username, each.password, "") for key, each in self.auth.items()))
        return keyring

    def with_missing(self, missing: tuple[MissingInput, ...]) -> "Provision":
        """The same answer, and what the kubelet would have told the provider beside what we did."""
        if not missing:
            return self
        copied = replace(self, missing=missing)
        copied.__dict__["keyring"] = self.keyring
        return copied
