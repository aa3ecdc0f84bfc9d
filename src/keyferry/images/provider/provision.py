"""The answer of one provider for one image, and its origin."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.values import Value, field, replace
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import KeyferryError
from keyferry.images.credential import ServiceAccountRef
from keyferry.images.missing import MissingInput

Auth = Mapping[str, AuthConfig]
# Beside the fields of an answer.
_COPY = "copy"


class ProvisionOutcome(StrEnum):
    """The origin of a provider's answer."""

    CACHED = "cached"
    RAN = "ran"
    SHARED = "shared"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


class AgentNote(Value):
    """The part of the node agent in an answer: the agent gave it, or *fallback* is the word for why not."""

    fallback: str = ""
    message: str = ""


class Provision(Value):
    """A provider's answer for one image, and its origin.

    *skipped* is the reason why the provider does not apply to the pod, and *lacking* the annotation that its account
    lacks, if it is that. *missing* are the inputs that a kubelet would have passed to the provider and that may change
    the answer.
    *cache_duration_ns* is the plugin's own, None if its response has none. *got_ns* is when a cached answer was got.
    *agent* is None if no agent was asked.
    """

    provider: str
    outcome: ProvisionOutcome
    auth: Auth = field(default_factory=dict, repr=False)
    cache_key_type: str = ""
    expires_ns: int | None = None
    seconds: float | None = None
    account: ServiceAccountRef | None = None
    skipped: str = ""
    lacking: str = ""
    error: KeyferryError | None = None
    kubernetes_text: str = field(default="", repr=False)
    missing: tuple[MissingInput, ...] = ()
    cache_duration_ns: int | None = None
    got_ns: int | None = None
    agent: AgentNote | None = None

    @property
    def is_from_agent(self) -> bool:
        """Whether the node agent gave the answer; then no plugin was run in this process."""
        return self.agent is not None and not self.agent.fallback

    def with_missing(self, missing: tuple[MissingInput, ...]) -> Provision:
        """Return this answer with the inputs that a kubelet would also have passed to the provider."""
        if not missing:
            return self
        # Kept, so that all images with this answer share one copy and its keyring.
        copied: Provision | None = self.__dict__.get(_COPY)
        if copied is None or copied.missing != missing:
            copied = self.__dict__[_COPY] = replace(self, missing=missing)
        return copied
