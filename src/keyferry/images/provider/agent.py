"""The node agent as a source of a provider's responses; every failure of it is a value, and the plugin is run here.

An answer of the agent counts only if it stands for the config that this process has read: the question names the hash
of the config's files and the bin dir, and the agent repeats the hash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property

from keyferry._core.clock import monotonic_ns
from keyferry._core.log import log_debug
from keyferry._core.secrets import printable
from keyferry._core.values import Value, field
from keyferry._net.agent import (
    AGENT_VARIABLE,
    ANSWER_SECONDS,
    AUTO,
    CONNECT_SECONDS,
    OFF,
    Fallback,
    FallbackReason,
    SocketReply,
    ask_agent,
    encode_question,
    find_socket,
)
from keyferry.api.credentialprovider.v1 import (
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.wire import Reader
from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import AgentNote, ProvisionOutcome
from keyferry.images.reference import registry_of

_EXPECTED = "expected 'off', 'auto' or the absolute path of a socket"
# How long an agent that did not answer in time is not asked again, and one whose answer a registry refused.
_PAUSE_NS = 30 * 1_000_000_000
_MAX_REMEMBERED = 1024
# How the agent got an answer, in the words of its protocol; the slowest first.
OUTCOMES = {
    "run": ProvisionOutcome.RAN,
    "shared": ProvisionOutcome.SHARED,
    "cache": ProvisionOutcome.CACHED,
}
_FAILURES = {
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


class AgentUse(Value):
    """The socket of the agent to ask, and *why_not* if it is not asked all the same."""

    place: str
    why_not: str = ""


def choose_agent(
    given: str | None = None, environ: Mapping[str, str] | None = None, *, why_not: str = ""
) -> AgentUse | None:
    """Return the agent that is given as ``auto`` or a socket, or None if it is ``off``.

    Without *given*, it is KEYFERRY_AGENT, else the usual place if there is a socket. Raise EnvironmentProblem if that
    variable counts and is none of these.
    """
    variables = os.environ if environ is None else environ
    if given in (None, "", AUTO):
        check_variable(variables)
    place = find_socket(variables, given or "")
    is_named = given or variables.get(AGENT_VARIABLE)
    return AgentUse(place=place, why_not=why_not) if place and (is_named or os.path.lexists(place)) else None


def check_agent(given: str) -> str:
    """Return ``off``, ``auto`` or the absolute path of a socket as it is; raise ValueError for anything else."""
    if not _names_agent(given):
        raise ValueError(f"agent is {given!r}, {_EXPECTED}")
    return given


def check_variable(environ: Mapping[str, str]) -> None:
    """Raise EnvironmentProblem if KEYFERRY_AGENT is set, and neither ``off`` nor ``auto`` nor an absolute path."""
    given = environ.get(AGENT_VARIABLE)
    if given and not _names_agent(given):
        raise EnvironmentProblem(f"{AGENT_VARIABLE} is {given!r}, {_EXPECTED}")


def _names_agent(given: str) -> bool:
    return given in (OFF, AUTO) or given.startswith("/")


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
        self._bin_dir = bin_dir
        self._clock = clock
        self._answer_seconds = min(ANSWER_SECONDS, timeout_seconds)
        self._resting_until_ns = 0
        # Registries, each for a provider: those that the agent has answered for, and those that it is not asked for.
        self._answered: set[tuple[str, str]] = set()
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
            found = self._send("/v1/lookup", "LookupRequest", self._question(provider, request), limit)
        if isinstance(found, Fallback):
            if found.reason is FallbackReason.SLOW and self._clock() >= self._resting_until_ns:
                self._resting_until_ns = self._clock() + _PAUSE_NS
            return _without(found.reason, found.message)
        answer = read_answer(found, api_version, self._config_hash)
        if answer.response is not None:
            log_debug("agent", "%s: provider %s: %s in the agent", request.image, provider, answer.outcome)
            if len(self._answered) >= _MAX_REMEMBERED:
                self._answered.clear()
            self._answered.add((provider, registry_of(request.image)))
        return answer

    def evict(self, provider: str, image: str, username: str, password: str) -> bool:
        """Tell the agent that a registry refused a credential of it; if it keeps it, the plugin is run here next.

        Return False if the credential was not the agent's, or if that happened less than 30 seconds ago.
        """
        key = provider, registry_of(image)
        if key not in self._answered or self._clock() < self._avoided.get(key, 0):
            return False
        fields = {"image": image, "username": username, "password": password}
        reply = self._send("/v1/evict", "EvictRequest", fields, self._answer_seconds)
        document = reply.read_object() if isinstance(reply, SocketReply) and reply.status == 200 else {}
        if document.get("evicted") is not True:
            if len(self._avoided) >= _MAX_REMEMBERED:
                self._avoided.clear()
            self._avoided[key] = self._clock() + _PAUSE_NS
        return True

    def _why_not(self, provider: str, image: str) -> Fallback | None:
        """Return why the agent is not asked."""
        use, now_ns = self._use, self._clock()
        if use.why_not:
            return Fallback(reason=FallbackReason.OFF, message=use.why_not)
        if not os.path.lexists(use.place):  # before the config is hashed
            return Fallback(reason=FallbackReason.ABSENT, message=f"there is no agent at {use.place!r}")
        if now_ns < self._resting_until_ns:
            message = "the agent did not answer in time a moment ago, and is not asked again yet"
            return Fallback(reason=FallbackReason.SLOW, message=message)
        if now_ns < self._avoided.get((provider, registry_of(image)), 0):
            message = "a registry refused what the agent gave, and the agent keeps it"
            return Fallback(reason=FallbackReason.REFUSED, message=message)
        return None

    @cached_property
    def _config_hash(self) -> str:
        return self._hash_config()

    def _question(self, provider: str, request: CredentialProviderRequest) -> dict[str, object]:
        question: dict[str, object] = {
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
        return question

    def _send(
        self, target: str, kind: str, fields: Mapping[str, object], answer_seconds: float
    ) -> SocketReply | Fallback:
        return ask_agent(
            self._use.place,
            target,
            encode_question(kind, fields),
            connect_seconds=min(CONNECT_SECONDS, answer_seconds),
            answer_seconds=answer_seconds,
        )


def read_answer(reply: SocketReply, api_version: str, config_hash: str) -> AgentAnswer:
    """Return the response in a reply that stands for this config, or why it cannot be used."""
    document = reply.read_object()
    if reply.status != 200:
        reason = _REFUSALS.get(_text(document, "reason"), FallbackReason.OTHER_VERSION)
        return _without(reason, f"the agent refused: {_text(document, 'message') or 'it gives no reason'}")
    if document.get("kind") != "ProviderResponse" or "configHash" not in document:
        message = "the agent is of another version and does not name its config"
        return _without(FallbackReason.OTHER_VERSION, message)
    if document["configHash"] != config_hash:
        return _without(FallbackReason.OTHER_CONFIG, "the agent has another provider config")
    return _read_outcome(document, api_version)


def _read_outcome(document: dict[str, object], api_version: str) -> AgentAnswer:
    outcome, source = _text(document, "outcome"), OUTCOMES.get(_text(document, "source"))
    if outcome == "noMatch":
        return _without(FallbackReason.NO_MATCH, "the agent has no answer of this provider for the image")
    if outcome in _FAILURES:
        # This process may have another user and another environment, so the plugin may succeed here.
        reason, what = _FAILURES[outcome]
        return _without(reason, f"the plugin {what} in the agent: {_text(document, 'message')}")
    response = document.get("response")
    reader = Reader()
    decoded = CredentialProviderResponse.from_document(response, reader)
    is_response = isinstance(response, dict) and response.get("apiVersion") == api_version
    if outcome != "answered" or reader.problems or not is_response or decoded.auth is None or source is None:
        return _without(FallbackReason.OTHER_VERSION, "the agent's answer is not understood here")
    return AgentAnswer(note=AgentNote(), response=decoded, outcome=source)


def _text(document: dict[str, object], name: str) -> str:
    value = document.get(name)
    return printable(value) if isinstance(value, str) else ""


def _without(reason: FallbackReason, message: str) -> AgentAnswer:
    log_debug("agent", "not used: %s", message)
    return AgentAnswer(note=AgentNote(fallback=str(reason), message=message))
