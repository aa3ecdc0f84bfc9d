"""The node agent as a source of a provider's responses; every failure of it is a value, and the plugin is run here.

An answer of the agent counts only if it stands for the config that this process has read: the question names the hash
of the config's files and the bin dir, and the agent repeats the hash.
"""

from __future__ import annotations

import os

from keyferry._core.clock import monotonic_ns
from keyferry._core.json import dumps
from keyferry._core.log import log_debug
from keyferry._core.secrets import printable
from keyferry._core.values import Value, field
from keyferry._net.agent import (
    ANSWER_SECONDS,
    API_VERSION,
    CONNECT_SECONDS,
    Fallback,
    FallbackReason,
    SocketReply,
    ask_agent,
)
from keyferry.api.credentialprovider.v1 import (
    CredentialProviderRequest,
    CredentialProviderResponse,
    read_plain_response,
)
from keyferry.images.answer import AgentNote, ProvisionOutcome
from keyferry.images.provider.agent_use import AgentUse
from keyferry.images.reference import registry_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["OUTCOMES", "AgentAnswer", "AgentSource", "read_document"]

# How long an agent that did not answer in time is not asked again, and one whose answer a registry refused.
_PAUSE_NS = 30 * 1_000_000_000
_MOST_REMEMBERED = 1024
# How the agent got an answer, in the words of its protocol; the slowest first.
OUTCOMES = {
    "run": ProvisionOutcome.RAN,
    "shared": ProvisionOutcome.SHARED,
    "cache": ProvisionOutcome.CACHED,
}
_FAILURES: dict[object, tuple[FallbackReason, str]] = {
    "notStarted": (FallbackReason.NOT_STARTED, "was not started"),
    "failed": (FallbackReason.FAILED, "failed"),
}
_REFUSALS = {
    "Forbidden": FallbackReason.FORBIDDEN,
    "UnknownProvider": FallbackReason.UNKNOWN_PROVIDER,
    "OtherConfig": FallbackReason.OTHER_CONFIG,
    "Busy": FallbackReason.BUSY,
    "Stopping": FallbackReason.STOPPING,
}


class AgentAnswer(Value):
    """What the agent gave: a response and how the agent got it, or the reason why there is none."""

    note: AgentNote
    response: CredentialProviderResponse | None = field(default=None, repr=False)
    outcome: ProvisionOutcome = ProvisionOutcome.RAN


class AgentSource:
    """Asks one agent on behalf of all providers of a config; safe to use from threads and after a fork."""

    def __init__(
        self,
        use: AgentUse,
        config_hash: Callable[[], str],
        bin_dir: str,
        *,
        clock: Callable[[], int] = monotonic_ns,
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Create a source; *timeout_seconds* is the time limit of one plugin run, wherever that is."""
        self._use = use
        self._hash_config = config_hash
        self._hash = ""
        self._bin_dir = bin_dir
        self._clock = clock
        self._answer_seconds = min(ANSWER_SECONDS, timeout_seconds)
        self._resting_until_ns = 0
        # Registries, each for a provider: those that the agent has answered for, and those that it is not asked for.
        self._answered: dict[tuple[str, str], None] = {}
        self._avoided: dict[tuple[str, str], int] = {}

    def ask(
        self,
        provider: str,
        api_version: str,
        request: CredentialProviderRequest,
        timeout_seconds: float | None = None,
    ) -> AgentAnswer:
        """Return the answer of the agent's provider of this name; with a time limit, half is left for the plugin."""
        limit = self._answer_seconds
        if timeout_seconds is not None:
            limit = min(limit, timeout_seconds / 2)
        found: SocketReply | Fallback | None = self._why_not(provider, request.image)
        if found is None:
            found = self._send("/v1/lookup", self._question(provider, request), limit)
        if isinstance(found, Fallback):
            if found.reason is FallbackReason.SLOW and self._clock() >= self._resting_until_ns:
                self._resting_until_ns = self._clock() + _PAUSE_NS
            return _without(found)
        answer = read_answer(found, api_version, self._config_hash)
        if answer.response is not None:
            log_debug("agent", "%s: provider %s: %s in the agent", request.image, provider, answer.outcome)
            _remember(self._answered, (provider, registry_of(request.image)), None)
        return answer

    def evict(self, provider: str, image: str, username: str, password: str) -> bool:
        """Tell the agent that a registry refused a credential of it; if it keeps it, the plugin is run here next.

        Return False if the credential was not the agent's, or if that happened less than 30 seconds ago.
        """
        key = provider, registry_of(image)
        if key not in self._answered or self._clock() < self._avoided.get(key, 0):
            return False
        fields = {"image": image, "username": username, "password": password}
        body = dumps({"apiVersion": API_VERSION, "kind": "EvictRequest", **fields})
        reply = self._send("/v1/evict", body, self._answer_seconds)
        document = reply.read_object() if isinstance(reply, SocketReply) and reply.status == 200 else {}
        if document.get("evicted") is not True:
            _remember(self._avoided, key, self._clock() + _PAUSE_NS)
        return True

    def _why_not(self, provider: str, image: str) -> Fallback | None:
        """Return why the agent is not asked."""
        use, now_ns = self._use, self._clock()
        if use.why_not:
            return Fallback(FallbackReason.OFF, use.why_not)
        if not os.path.lexists(use.place):  # before the config is hashed
            return Fallback(FallbackReason.ABSENT, f"there is no agent at {use.place!r}")
        if now_ns < self._resting_until_ns:
            message = "the agent did not answer in time a moment ago, and is not asked again yet"
            return Fallback(FallbackReason.SLOW, message)
        if now_ns < self._avoided.get((provider, registry_of(image)), 0):
            return Fallback(
                FallbackReason.REFUSED, "a registry refused what the agent gave, and the agent keeps it"
            )
        return None

    @property
    def _config_hash(self) -> str:
        if not self._hash:
            self._hash = self._hash_config()
        return self._hash

    def _question(self, provider: str, request: CredentialProviderRequest) -> str:
        question: dict[str, object] = {
            "apiVersion": API_VERSION,
            "kind": "LookupRequest",
            "provider": provider,
            "image": request.image,
            "configHash": self._config_hash,
            "binDir": self._bin_dir,
        }
        # As a shim passes them on.
        if request.service_account_token:
            question["serviceAccountToken"] = request.service_account_token
        if request.service_account_annotations:
            question["serviceAccountAnnotations"] = dict(request.service_account_annotations)
        return dumps(question)

    def _send(self, target: str, body: str, answer_seconds: float) -> SocketReply | Fallback:
        data = body.encode("utf-8", "surrogateescape")
        connect_seconds = min(CONNECT_SECONDS, answer_seconds)
        return ask_agent(
            self._use.place, target, data, connect_seconds=connect_seconds, answer_seconds=answer_seconds
        )


def read_answer(reply: SocketReply, api_version: str, config_hash: str) -> AgentAnswer:
    """Return the response in a reply, or why it cannot be used."""
    document = read_document(reply, "ProviderResponse", config_hash)
    if isinstance(document, Fallback):
        return _without(document)
    outcome, source = document.get("outcome"), OUTCOMES.get(_text(document, "source"))
    if outcome == "noMatch":
        return _without(
            Fallback(FallbackReason.NO_MATCH, "the agent has no answer of this provider for the image")
        )
    if outcome in _FAILURES:
        # This process may have another user and another environment, so the plugin may succeed here.
        reason, what = _FAILURES[outcome]
        return _without(Fallback(reason, f"the plugin {what} in the agent: {_text(document, 'message')}"))
    response = document.get("response")
    # What the agent gives is not cached here, so the duration does not matter; it may be absent.
    plain = {**response, "cacheDuration": "0s"} if isinstance(response, dict) else None
    decoded = read_plain_response(plain, api_version)
    if outcome != "answered" or decoded is None or source is None:
        return _without(Fallback(FallbackReason.OTHER_VERSION, "the agent's answer is not understood here"))
    return AgentAnswer(AgentNote(), decoded, source)


def read_document(reply: SocketReply, kind: str, config_hash: str) -> dict[str, object] | Fallback:
    """Return the document of *kind* in a reply that stands for this config, or why there is none."""
    document = reply.read_object()
    if reply.status != 200:
        reason = _REFUSALS.get(_text(document, "reason"), FallbackReason.OTHER_VERSION)
        said = _text(document, "message") or "it gives no reason"
        return Fallback(reason, f"the agent refused: {said}")
    if document.get("kind") != kind or "configHash" not in document:
        return Fallback(
            FallbackReason.OTHER_VERSION, "the agent is of another version and does not name its config"
        )
    if document["configHash"] != config_hash:
        return Fallback(FallbackReason.OTHER_CONFIG, "the agent has another provider config")
    return document


def _text(document: dict[str, object], name: str) -> str:
    value = document.get(name)
    return printable(value) if isinstance(value, str) else ""


def _without(fallback: Fallback) -> AgentAnswer:
    log_debug("agent", "not used: %s", fallback.message)
    return AgentAnswer(AgentNote(str(fallback.reason), fallback.message))


def _remember(kept: dict[tuple[str, str], T], key: tuple[str, str], value: T) -> None:
    if len(kept) >= _MOST_REMEMBERED:
        kept.clear()
    kept[key] = value
