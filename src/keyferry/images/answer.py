"""Answers: of one provider and of a whole lookup, and the inputs that were missing for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from keyferry._core.reasons import Reason
from keyferry._core.values import Value, field, replace
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import KeyferryError
from keyferry.images.keyring import Credential, Keyring, ServiceAccountRef, Source, SourceKind

Auth = Mapping[str, AuthConfig]


class LookupInput(StrEnum):
    """An input of a lookup that a kubelet knows, and that must be given here."""

    POD = "pod"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word for one
    ACCOUNT_SECRETS = "account-secrets"
    DOCKER_CONFIG = "docker-config"
    SERVICE_ACCOUNT = "service-account"
    SERVICE_ACCOUNT_TOKEN = "service-account-token"  # noqa: S105 - a word for one
    IMAGES = "images"
    NODE = "node"
    PLUGIN = "plugin"


class MissingInput(Value):
    """An input that was not given; *name* identifies it where there can be several.

    *instead* is the problem with an input that was given and cannot be used.
    """

    input: LookupInput
    name: str = ""
    instead: str = ""

    def __str__(self) -> str:
        text = _TEXTS[self.input] if self.name else _TEXTS[self.input].replace(" {name!r}", "")
        text = text.format(name=self.name)
        return f"{text}: {self.instead}" if self.instead else text


# What the ServiceAccount of the pod answers.
ACCOUNT_INPUTS = (LookupInput.ACCOUNT_SECRETS, LookupInput.SERVICE_ACCOUNT)
_TEXTS = {
    LookupInput.POD: "the pod was not given, so its pull secrets and its service account are not known",
    LookupInput.PULL_SECRET: "pull secret {name!r}, which the pod lists, was not given",
    LookupInput.ACCOUNT_SECRETS: "the pull secrets of service account {name!r} are not known",
    LookupInput.DOCKER_CONFIG: "the node's docker config {name!r} was not given",
    LookupInput.SERVICE_ACCOUNT: "the service account {name!r} was not given, so its annotations and UID are not known",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "a token of the service account {name!r} was not given",
    LookupInput.NODE: "the provider config and the docker config of the pod's node are not known",
    LookupInput.PLUGIN: "the plugin {name!r} was not run",
    LookupInput.IMAGES: "the node's images were not given, so it is not known whether {name!r} is among them",
}


def distinct(*groups: tuple[MissingInput, ...]) -> tuple[MissingInput, ...]:
    """Return all missing inputs of *groups*, in order, without duplicates."""
    return tuple(dict.fromkeys(missing for group in groups for missing in group))


def missing_documents(missing: tuple[MissingInput, ...]) -> list[dict[str, object]]:
    """Return missing inputs as documents with stable fields."""
    return [{"input": str(each.input), "name": each.name, "text": str(each)} for each in missing]


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

    @cached_property
    def keyring(self) -> Keyring:
        """The credentials of the answer, with the provider as their source."""
        source = Source(kind=SourceKind.PROVIDER, name=self.provider, service_account=self.account)
        keyring = Keyring()
        keyring.add(source, [(key, each.username, each.password, "") for key, each in self.auth.items()])
        return keyring

    @property
    def is_from_agent(self) -> bool:
        """Whether the node agent gave the answer; then no plugin was run in this process."""
        return self.agent is not None and not self.agent.fallback

    def with_missing(self, missing: tuple[MissingInput, ...]) -> Provision:
        """Return this answer with the inputs that a kubelet would also have passed to the provider."""
        return replace(self, missing=missing) if missing else self


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


class Answer(Value):
    """The result of a lookup: credentials in the order the kubelet would try them, and the reasons.

    *image* is the image as it was given, *name* as it is looked up.
    """

    image: str
    # Patterns and keys are compared with this name.
    name: str
    credentials: tuple[Credential, ...]
    # The answers of the providers that match.
    provisions: tuple[Provision, ...]
    # The index of each provider that matches, and its first pattern that matches the image.
    matching: tuple[tuple[int, str], ...]
    providers: tuple[CredentialProvider, ...] = field(repr=False)
    # All credentials that were found: of pull secrets, the node's docker config and providers.
    keyrings: tuple[Keyring, ...] = field(default=(), repr=False)
    # The inputs that the caller knows to be missing; see ``missing``.
    not_given: tuple[MissingInput, ...] = ()
    # On the same clock as the expiry of provisions.
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
        found = distinct(self.not_given, *(provision.missing for provision in self.provisions))
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

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the answer, for each provider and each credential, as ``explain`` prints them."""
        from keyferry.images.reasons.reasons import reasons_for
        from keyferry.images.reasons.traps import traps_for

        return (*reasons_for(self), *traps_for(self))

    def __repr__(self) -> str:
        tried = (f"{credential.username!r} of {credential.source}" for credential in self.credentials)
        parts = (
            ", ".join(tried) or str(self.outcome),
            *(f"{failure.provider} failed" for failure in self.kubelet_failures),
            *(str(each) for each in self.missing),
        )
        return f"<Answer for {self.image!r}: {'; '.join(parts)}>"

    def raise_for_failures(self) -> None:
        """Raise the error of the first provider that failed, if any."""
        for provision in self.provisions:
            if provision.error is not None:
                raise provision.error


def _is_possible_file(missing: MissingInput) -> bool:
    return missing.input is LookupInput.DOCKER_CONFIG and not missing.name


def _failure(provision: Provision) -> Failure:
    assert provision.error is not None  # noqa: S101 - what failed has one
    return Failure(
        provider=provision.provider, error=provision.error, kubernetes_text=provision.kubernetes_text
    )
