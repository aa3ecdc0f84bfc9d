"""The agent's answers to requests: who may ask is checked first, then the question is answered from one state."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

from keyferry._core.clock import monotonic_ns
from keyferry.agent.access import Caller, CallerRights, EvictionLimit, RunQueue
from keyferry.agent.journal import (
    DecisionOutcome,
    DecisionResult,
    Journal,
    RequestDecision,
    Usage,
    own_words,
    result_of_refusal,
)
from keyferry.agent.log import AgentLog, LogLevel, place_of
from keyferry.agent.lookups import (
    AgentQuestion,
    BadQuestionError,
    Tenants,
    lookup_reply,
    provider_reply,
    read_eviction,
    read_question,
    registry_reply,
)
from keyferry.agent.message import AgentReply, AgentRequest, reply_document, reply_status
from keyferry.agent.refresh import Refresher
from keyferry.agent.state import AgentState
from keyferry.errors import KeyferryError, PluginError
from keyferry.images.answer import Failure, Provision, ProvisionOutcome
from keyferry.images.provider.accounts import Pod
from keyferry.images.provider.cache import base_key
from keyferry.images.reference import shorten_name
from keyferry.images.registries import exact_registries, images_of, lookup_registry_async

_Reply = AgentReply | Awaitable[AgentReply]
# The kubelet asks for a pod without a service account.
_NO_ACCOUNT = Pod()
# Probes need no right.
_FOR_ALL = (b"/v1/health", b"/v1/ready")
_MANAGED = (
    *(b"/v1/evict", b"/v1/status", b"/v1/reload", b"/v1/handover", b"/v1/page"),
    *(b"/v1/metrics", b"/metrics"),
)
# What is cached is still served then; no plugin is started.
_STOPPING = reply_status(503, "Stopping", "the agent stops")
_OK = 200
_BUSY_SECONDS = 5
_BUSY = reply_status(503, "Busy", "too many lookups of this user wait for plugins", _BUSY_SECONDS)
_WAITS = DecisionResult(
    outcome=DecisionOutcome.REFUSED, source="", reason="too many lookups of the caller wait for plugins"
)
_DIFFERS = DecisionResult(
    outcome=DecisionOutcome.REFUSED, source="", reason="the caller has another provider config or bin dir"
)
_STOPS = DecisionResult(
    outcome=DecisionOutcome.REFUSED, source="", reason="the agent stops, and this is not cached"
)
_EVICTIONS = {
    True: DecisionResult(
        outcome=DecisionOutcome.EVICTED, source="", reason="a registry refused the credential; it is dropped"
    ),
    False: DecisionResult(
        outcome=DecisionOutcome.NO_MATCH,
        source="",
        reason="a registry refused a credential that is not cached, or was just dropped",
    ),
}
_OTHER_CONFIG = reply_status(409, "OtherConfig", "the agent has another provider config, or another bin dir")


class Management:
    """What the service needs of the process around it: its status and figures, a reload, its cache, its page."""

    def status(self) -> dict[str, object]:
        """Return the fields of the status document."""
        raise NotImplementedError

    def metrics(self) -> AgentReply:
        """Return the figures for Prometheus."""
        raise NotImplementedError

    async def reload(self) -> AgentReply:
        """Read all configs again."""
        raise NotImplementedError

    def hand_over(self, uid: int) -> AgentReply:
        """Return the cached answers for everybody to a process of this user."""
        raise NotImplementedError

    def page_link(self, caller: Caller) -> AgentReply:
        """Return a link to the page for this caller, or why there is none."""
        raise NotImplementedError


class AgentService:
    """Routes requests; a handler answers at once, or returns what is to be awaited."""

    def __init__(
        self,
        state: Callable[[], AgentState],
        refresher: Refresher,
        management: Management,
        log: AgentLog,
        *,
        journal: Journal | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.usage = Usage()
        self.journal = Journal(is_on=False) if journal is None else journal
        self.is_stopping = False
        self._state = state
        self._refresher = refresher
        self._log = log
        self._clock = clock
        self._tenants = Tenants(clock=clock)
        self._evictions = EvictionLimit()
        self._runs = RunQueue()
        self._routes: dict[tuple[bytes, bytes], Callable[[AgentRequest, CallerRights], _Reply]] = {
            (b"POST", b"/v1/lookup"): self._lookup,
            (b"POST", b"/v1/evict"): lambda request, _: self._evict(request),
            (b"GET", b"/v1/registries"): lambda _, rights: self._registries(rights),
            (b"GET", b"/v1/status"): lambda _, __: reply_document("AgentStatus", **management.status()),
            (b"POST", b"/v1/reload"): lambda _, __: management.reload(),
            (b"POST", b"/v1/handover"): lambda request, _: management.hand_over(request.caller.uid),
            (b"POST", b"/v1/page"): lambda request, _: management.page_link(request.caller),
            (b"GET", b"/v1/metrics"): lambda _, __: management.metrics(),
            (b"GET", b"/metrics"): lambda _, __: management.metrics(),
            (b"GET", b"/v1/health"): lambda _, __: reply_document("Health", healthy=True),
            (b"GET", b"/v1/ready"): lambda _, __: (
                _STOPPING if self.is_stopping else reply_document("Health", ready=True)
            ),
        }
        self._paths = {path for _, path in self._routes}

    def may_ask(self, caller: Caller) -> bool:
        """Return whether a rule names the caller; the bodies of others are not read."""
        return self._state().policy.rights_of(caller).has_any

    def handle(self, request: AgentRequest) -> _Reply:
        """Answer one request; it never raises."""
        started = time.perf_counter()
        try:
            reply = self._dispatch(request)
        except Exception as error:  # noqa: BLE001 - one request must not end the agent
            reply = self._broken(request, error)
        if isinstance(reply, AgentReply):
            self._account(request, reply, started)
            return reply
        return self._wait(request, reply, started)

    async def _wait(
        self, request: AgentRequest, pending: Awaitable[AgentReply], started: float
    ) -> AgentReply:
        try:
            reply = await pending
        except Exception as error:  # noqa: BLE001 - as above
            reply = self._broken(request, error)
        self._account(request, reply, started)
        return reply

    def _broken(self, request: AgentRequest, error: Exception) -> AgentReply:
        # Its text could quote what a client or a plugin sent.
        self._log.write(
            LogLevel.ERROR,
            "a request failed",
            error=type(error).__name__,
            at=place_of(error),
            path=_path(request),
            **_named(request),
        )
        return reply_status(500, "InternalError", "the agent failed to answer; its log says more")

    def _account(self, request: AgentRequest, reply: AgentReply, started: float) -> None:
        at = time.time()
        # Who only looks at the agent, as a page or 'agent status --watch' does every second, asks for nothing.
        if request.method != b"GET" or reply.status != _OK:
            self.usage.count(request.caller.uid, reply.status, at)
        if reply.decision is not None and self.journal.is_on:
            seconds = time.perf_counter() - started
            self.journal.add(request.caller, reply.decision(), at, seconds)
        if self._log.is_debugging:
            self._log.write(
                LogLevel.DEBUG,
                "request",
                **_named(request),
                method=request.method.decode("ascii", "replace"),
                path=_path(request),
                uid=request.caller.uid,
                pid=request.caller.pid or None,
                status=reply.status,
                milliseconds=round((time.perf_counter() - started) * 1000, 3),
            )

    def _dispatch(self, request: AgentRequest) -> _Reply:
        rights = self._state().policy.rights_of(request.caller)
        if not rights.has_any and request.path not in _FOR_ALL:
            return self._forbid(request, "may not use the agent: no rule names it")
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            if request.path in self._paths:
                return reply_status(405, "MethodNotAllowed", "this path has another method")
            return reply_status(404, "NotFound", "there is nothing at this path")
        if request.path in _MANAGED and not rights.may_manage:
            return self._forbid(request, "may not manage the agent", missing_rule="manage")
        try:
            return handler(request, rights)
        except BadQuestionError as problem:
            return reply_status(400, "BadRequest", str(problem))

    def _lookup(self, request: AgentRequest, rights: CallerRights) -> _Reply:
        question = read_question(request.body)
        state = self._state()
        refusal = self._refuse(state, request, rights, question)
        if refusal is not None:
            return refusal
        if question.config_hash and not state.has_config(question.config_hash, question.bin_dir):
            return _decided(_OTHER_CONFIG, question, _DIFFERS)
        if question.registry:
            return self._run(request, question, lambda: self._ask_registry(state, request, question))
        if question.provider:
            return self._ask_provider(state, request, rights, question)
        return self._ask_all(state, request, question)

    def _ask_all(self, state: AgentState, request: AgentRequest, question: AgentQuestion) -> _Reply:
        pod = self._pod_of(question)
        answer = state.providers.recall(question.image, pod=pod)
        if answer is None:
            return self._run(request, question, lambda: self._run_all(state, request, question, pod))
        now_ns = self._clock()
        for provision in answer.provisions:
            self._use(provision, answer.name, now_ns)
        return lookup_reply(question, answer, now_ns)

    async def _run_all(
        self, state: AgentState, request: AgentRequest, question: AgentQuestion, pod: Pod | None
    ) -> AgentReply:
        answer = await state.providers.lookup_async(question.image, pod=pod)
        self._log_failures(request, question, answer.failures)
        return lookup_reply(question, answer, self._clock())

    async def _ask_registry(
        self, state: AgentState, request: AgentRequest, question: AgentQuestion
    ) -> AgentReply:
        answer = await lookup_registry_async(state.providers, question.registry)
        self._log_failures(request, question, answer.failures)
        return registry_reply(question, answer, self._clock())

    def _run(
        self, request: AgentRequest, question: AgentQuestion, work: Callable[[], Awaitable[AgentReply]]
    ) -> _Reply:
        """Return the reply of *work*, which may run plugins, when the caller may; no plugin runs at the end."""
        if self.is_stopping:
            return _decided(_STOPPING, question, _STOPS)
        uid = request.caller.uid
        place = self._runs.enter(uid)
        if place is None:
            self.usage.too_many_lookups += 1
            return _decided(_BUSY, question, _WAITS)

        async def wait() -> AgentReply:
            await self._runs.begin(uid, place)
            try:
                return _decided(_STOPPING, question, _STOPS) if self.is_stopping else await work()
            finally:
                self._runs.end(uid)

        return wait()

    def _log_failures(
        self, request: AgentRequest, question: AgentQuestion, failures: Iterable[Failure]
    ) -> None:
        for failure in failures:
            self._log.write_seldom(
                LogLevel.WARNING,
                f"failed {failure.provider}",
                "a provider failed",
                provider=failure.provider,
                image=shorten_name(question.registry or question.image.text),
                error=_reason(failure.error),
                uid=request.caller.uid,
                **_named(request),
            )

    def _refuse(
        self, state: AgentState, request: AgentRequest, rights: CallerRights, question: AgentQuestion
    ) -> AgentReply | None:
        """Return the refusal of a question that the caller may not ask.

        For a whole registry the caller must be allowed to ask for every image that is looked up for it.
        """
        what = "images"
        if not question.registry:
            may_ask = rights.may_ask(question.image.repository)
        else:
            images, what = images_of(state.providers.configs, question.registry), "all images"
            names = [each.repository for each in images] or [f"{question.registry}/"]
            may_ask = all(map(rights.may_ask, names))
        if may_ask:
            return None
        registry = shorten_name(question.image.registry)
        return self._forbid(request, f"may not ask for {what} of {registry}", question)

    def _forbid(
        self,
        request: AgentRequest,
        what: str,
        question: AgentQuestion | None = None,
        *,
        missing_rule: str = "access",
    ) -> AgentReply:
        uid = request.caller.uid
        self._log.write_seldom(
            LogLevel.WARNING, f"forbidden {uid}", "refused", uid=uid, reason=what, **_named(request)
        )
        reply = reply_status(403, "Forbidden", f"user {uid} {what}")
        return _decided(reply, question, result_of_refusal(uid, what, missing_rule))

    def _pod_of(self, question: AgentQuestion) -> Pod | None:
        if question.token:
            return self._tenants.relay(question.token, question.annotations, question.account)
        return _NO_ACCOUNT if question.provider else None

    def _ask_provider(
        self, state: AgentState, request: AgentRequest, rights: CallerRights, question: AgentQuestion
    ) -> _Reply:
        if question.provider not in state.providers:
            return reply_status(404, "UnknownProvider", "no provider of the agent has this name")
        provider = state.providers.find(question.provider, question.image)
        pod = self._pod_of(question)
        recalled = None if provider is None else provider.recall(question.image.repository, pod)
        if provider is not None and recalled is None:
            return self._run(
                request, question, lambda: self._run_provider(state, request, rights, question, pod)
            )
        if provider is not None and recalled is not None and recalled.outcome is ProvisionOutcome.CACHED:
            provider.counters.hit()
            self._use(recalled, question.image.repository, self._clock())
        return self._provider_reply(state, rights, question, recalled)

    async def _run_provider(
        self,
        state: AgentState,
        request: AgentRequest,
        rights: CallerRights,
        question: AgentQuestion,
        pod: Pod | None,
    ) -> AgentReply:
        provision = await state.providers.provide_async(question.provider, question.image, pod=pod)
        if provision is not None and provision.error is not None:
            self._log_failures(
                request, question, [Failure(provider=provision.provider, error=provision.error)]
            )
        return self._provider_reply(state, rights, question, provision)

    def _provider_reply(
        self, state: AgentState, rights: CallerRights, question: AgentQuestion, provision: Provision | None
    ) -> AgentReply:
        configs = state.providers.configs
        api_version = next(each.api_version for each in configs if each.name == question.provider)
        return provider_reply(
            question, provision, api_version, self._clock(), is_limited=not rights.has_every_registry
        )

    def _use(self, provision: Provision, repository: str, now_ns: int) -> None:
        if provision.outcome is ProvisionOutcome.CACHED:
            base = base_key(provision.cache_key_type, repository)
            self._refresher.plan.use(provision.provider, base, now_ns)

    def _evict(self, request: AgentRequest) -> AgentReply:
        name, username, password = read_eviction(request.body)
        wait_seconds = self._evictions.wait_seconds(request.caller.uid, time.monotonic())
        if wait_seconds:
            return reply_status(429, "TooManyRequests", "too many evictions", wait_seconds)
        evicted = self._state().providers.refuse(name, username, password)
        self._log.write(
            LogLevel.INFO,
            "evict",
            image=shorten_name(name.repository),
            uid=request.caller.uid,
            evicted=evicted,
            **_named(request),
        )
        reply = reply_document("EvictResponse", evicted=evicted)
        return _decided(reply, AgentQuestion(image=name), _EVICTIONS[evicted])

    def _registries(self, rights: CallerRights) -> AgentReply:
        """Return the registries that patterns name and whose images, whatever their path, the caller may ask for."""
        named = exact_registries(self._state().providers.configs)
        return reply_document(
            "RegistryList", registries=[each for each in named if rights.may_ask(f"{each}/")]
        )


def _decided(reply: AgentReply, question: AgentQuestion | None, result: DecisionResult) -> AgentReply:
    """Return a reply with what the journal says of it; without a *question*, it tells nothing of one."""
    if question is None:
        return reply._replace(
            decision=lambda: RequestDecision(image="", account="", provider="", result=result)
        )
    return reply._replace(decision=lambda: question.decided(result))


def _path(request: AgentRequest) -> str:
    return shorten_name(request.path.decode("ascii", "replace"))


def _named(request: AgentRequest) -> dict[str, object]:
    """Return what names a request in every line of the log about it."""
    return {"id": request.number, "traceparent": request.traceparent}


def _reason(error: KeyferryError) -> str:
    """Return why a provider failed: what its plugin said, with secrets masked, and nothing that a token says."""
    return str(error) if isinstance(error, PluginError) else own_words(error)
