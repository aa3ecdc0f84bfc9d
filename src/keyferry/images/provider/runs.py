"""The runs of a provider's plugin: each becomes an answer, a failure, or is refused as in the kubelet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from time import monotonic

from keyferry._core.log import log_debug
from keyferry._core.values import Value, field, replace
from keyferry._net.agent import FallbackReason
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import KeyferryError, PluginError, PluginProtocolError
from keyferry.images.answer import AgentNote, Provision, ProvisionOutcome
from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry.images.provider.accounts import Identity
from keyferry.images.provider.agent import AgentSource
from keyferry.images.provider.cache import CACHE_KEY_TYPES, shares_cache_key
from keyferry.images.provider.counters import Counters
from keyferry.images.provider.plugin import Plugin

FAILED_RUN = "failed to get credential from external registry credential provider: "
# A pod that waits for its image asks every five minutes at least. A failure that nobody has met again for so long says
# nothing about now, if the plugin has answered since.
FAILURE_AGE_NS = 10 * 60 * 1_000_000_000
# Of more than so many at once, the oldest are forgotten.
_MAX_OPEN_FAILURES = 100


class LastFailure(Value):
    """The last failed run of a provider: for which image, why, and when."""

    image: str
    error: KeyferryError
    at_ns: int


class OpenFailure(Value):
    """A failed run after which the plugin has not answered for the same image and account, and its first failure."""

    failure: LastFailure
    account_key: bytes = field(repr=False)
    since_ns: int


class OpenFailures:
    """The failures of a provider that no answer has ended; not thread-safe."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, bytes], OpenFailure] = {}
        self._answered_ns: int | None = None

    def at(self, now_ns: int) -> Iterator[OpenFailure]:
        """Yield those that say something about now, the newest last."""
        return (each for each in self._failures.values() if not self._is_old(each, now_ns))

    def add(self, failure: LastFailure, account_key: bytes) -> None:
        """Note a failure; of an image and account that failed before, the first instant is kept."""
        key = (failure.image, account_key)
        before = self._failures.pop(key, None)
        since_ns = failure.at_ns if before is None else before.since_ns
        self._failures[key] = OpenFailure(failure=failure, account_key=account_key, since_ns=since_ns)
        if len(self._failures) > _MAX_OPEN_FAILURES:
            del self._failures[next(iter(self._failures))]

    def end(self, image: str, account_key: bytes, cache_key_type: str, now_ns: int) -> None:
        """End those for which this answer is, and those that are old."""
        self._answered_ns = now_ns
        self._failures = {
            key: each
            for key, each in self._failures.items()
            if not self._is_old(each, now_ns)
            and not (key[1] == account_key and shares_cache_key(cache_key_type, image, key[0]))
        }

    def _is_old(self, found: OpenFailure, now_ns: int) -> bool:
        at_ns, answered_ns = found.failure.at_ns, self._answered_ns
        return answered_ns is not None and at_ns < answered_ns and now_ns - at_ns > FAILURE_AGE_NS


class LastAnswer(Value):
    """The last answer of a provider's plugin: the image that it was run for, and the keys of the credentials."""

    image: str
    keys: tuple[str, ...] = field(repr=False)  # user info in a key is a secret

    @cached_property
    def has_key(self) -> bool:
        """Whether a key matches the image."""
        keyring = Keyring()
        keyring.add(Source(kind=SourceKind.PROVIDER, name=""), ((key, "", "", "") for key in self.keys))
        return bool(keyring.lookup(self.image))


class Runs:
    """The runs of one provider's plugin, in whose place an agent may answer."""

    def __init__(
        self,
        config: CredentialProvider,
        plugin: Plugin,
        agent: AgentSource | None,
        clock: Callable[[], int],
    ) -> None:
        self.plugin = plugin
        self.agent = agent
        self.counters = Counters()
        self.last_failure: LastFailure | None = None
        self.last_answer: LastAnswer | None = None
        self._config = config
        self._clock = clock

    def ask(
        self, request: CredentialProviderRequest, identity: Identity, timeout_seconds: float | None
    ) -> Provision:
        """Return the agent's answer, if it is asked and has one, else run the plugin."""
        if self.agent is None:
            return self._run_plugin(request, identity, timeout_seconds)
        begun = monotonic()
        told = self.agent.ask(self._config.name, self._config.api_version, request, timeout_seconds)
        seconds = monotonic() - begun
        note = told.note
        if told.response is not None:
            problem = self._refuse(told.response, identity)
            if problem is None:
                return self._answered(told.response, identity, told.outcome, None, seconds, note)
            message = f"the agent's answer is not allowed: {problem}"
            note = AgentNote(fallback=str(FallbackReason.OTHER_VERSION), message=message)
        left = None if timeout_seconds is None else timeout_seconds - seconds
        return replace(self._run_plugin(request, identity, left), agent=note)

    def _run_plugin(
        self, request: CredentialProviderRequest, identity: Identity, timeout_seconds: float | None
    ) -> Provision:
        image = request.image
        try:
            response, seconds = self.plugin(request, timeout_seconds)
        except PluginError as error:
            # The error is passed on as a value; the frames of its traceback hold the plugin's output.
            error.__traceback__ = None
            log_debug("images", "%s: plugin %s failed: %s", image, self._config.name, error.kind)
            return self._failed(image, identity, error, error.seconds, FAILED_RUN + error.kubernetes_text)
        log_debug("images", "%s: plugin %s ran for %.1f ms", image, self._config.name, seconds * 1000)
        problem = self._refuse(response, identity)
        if problem is not None:
            return self._failed(image, identity, problem, seconds, problem.kubernetes_text)
        now_ns = self._clock()
        self.counters.ran(seconds, None, now_ns)
        self.last_answer = LastAnswer(image=image, keys=tuple(response.auth or ()))
        expires_ns = self._expiry_ns(response, identity, now_ns)
        return self._answered(response, identity, ProvisionOutcome.RAN, expires_ns, seconds)

    def _failed(
        self, image: str, identity: Identity, error: PluginError, seconds: float | None, text: str
    ) -> Provision:
        now_ns = self._clock()
        self.counters.ran(seconds, error, now_ns)
        self.last_failure = LastFailure(image=image, error=error, at_ns=now_ns)
        return Provision(
            provider=self._config.name,
            outcome=ProvisionOutcome.FAILED,
            seconds=seconds,
            account=identity.ref,
            error=error,
            kubernetes_text=text,
        )

    def _answered(  # noqa: PLR0917 - the fields of an answer
        self,
        response: CredentialProviderResponse,
        identity: Identity,
        outcome: ProvisionOutcome,
        expires_ns: int | None,
        seconds: float,
        agent: AgentNote | None = None,
    ) -> Provision:
        return Provision(
            provider=self._config.name,
            outcome=outcome,
            auth=response.auth or {},
            cache_key_type=response.cache_key_type,
            expires_ns=expires_ns,
            seconds=seconds,
            account=identity.ref,
            cache_duration_ns=response.cache_duration_ns,
            agent=agent,
        )

    def _refuse(self, response: CredentialProviderResponse, identity: Identity) -> PluginError | None:
        """Return the error of a response that is decoded but not allowed, or None."""
        attributes = self._config.token_attributes
        if identity.token and attributes is not None and attributes.cache_type != "Token":
            if any(auth.password == identity.token for auth in (response.auth or {}).values()):
                return _echoed(self._config.name)
        if response.cache_key_type not in CACHE_KEY_TYPES:
            text = (
                f"credential provider plugin did not return a valid cacheKeyType: {response.cache_key_type}"
            )
            expected = ", ".join(CACHE_KEY_TYPES)
            return PluginProtocolError(
                self._config.name, f"cacheKeyType of its response is none of {expected}", text
            )
        return None

    def _expiry_ns(self, response: CredentialProviderResponse, identity: Identity, now_ns: int) -> int | None:
        """Return the expiry of a response that was got now, or None if it is not cached."""
        duration = response.cache_duration_ns
        if duration is None:
            duration = self._config.default_cache_duration_ns or 0
        if duration == 0:
            return None
        expires_ns = now_ns + duration
        if not identity.key:
            return expires_ns
        # An answer for a relayed token does not outlive the token.
        if identity.until_ns is None or identity.until_ns <= now_ns:
            return None
        return min(expires_ns, identity.until_ns)


def _echoed(plugin: str) -> PluginError:
    text = (
        "credential provider plugin returned the service account token as the password which is not allowed "
        "when service account cache type is not set to 'Token'"
    )
    message = (
        "it returned the service account token itself, which would outlive the token in the cache; "
        "set tokenAttributes.cacheType to 'Token' for such a plugin"
    )
    return PluginProtocolError(plugin, message, text)
