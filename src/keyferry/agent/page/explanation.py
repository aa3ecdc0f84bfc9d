"""The explanation of an image from what is cached: no plugin is run, no file is read and nothing is counted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_user_info
from keyferry._net.agent import MAX_NAME_CHARACTERS
from keyferry.agent.health import cure_of
from keyferry.agent.journal import own_words
from keyferry.agent.page.model import PageSnapshot, account_text
from keyferry.api.meta import format_time
from keyferry.errors import ImageNameError
from keyferry.explain.causes import explain
from keyferry.explain.explanation import Facts
from keyferry.explain.lookup_causes import describe_miss
from keyferry.images.answer import Answer, Provision, ProvisionOutcome
from keyferry.images.provider.cache import shares_cache_key
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.runs import LastFailure
from keyferry.images.reasons.nearness import find_misses
from keyferry.images.reference import shorten_name
from keyferry.page.model import Advice, ExplainedPull, ExplainedStep, StepState

_SECOND = 1_000_000_000
_MAX_LINES = 20
_SECRETS = "The agent does not know the pull secrets of a pod; the kubelet tries them first"
_NODE_CONFIG = "The agent does not read the docker config of the node; the kubelet tries it second"


def explain_cached(snapshot: PageSnapshot, image: str, account: str = "") -> ExplainedPull:
    """Return what a pull of *image* for a service account would get, as far as it is in memory."""
    if len(image) > MAX_NAME_CHARACTERS:
        return _refuse(image, account, f"the name is longer than {MAX_NAME_CHARACTERS} characters")
    try:
        answer = snapshot.state.providers.foresee(image)
    except ImageNameError as error:
        return _refuse(image, account, error.message)
    return _Explainer(snapshot, answer, account).explain()


def _refuse(image: str, account: str, why: str) -> ExplainedPull:
    shown, named = printable(shorten_name(image)), printable(shorten_name(account))
    return ExplainedPull(image=shown, account=named, verdict=printable(why), steps=(), cures=(), in_full=())


class _Explainer:
    def __init__(self, snapshot: PageSnapshot, answer: Answer, account: str) -> None:
        self._snapshot = snapshot
        self._answer = answer
        self._account = account
        self._by_name = {each.name: each for each in snapshot.state.providers.providers}
        self._for_account = dict(self._find_for_account()) if account else {}
        self._unknown = [
            each
            for each in answer.provisions
            if each.outcome is ProvisionOutcome.UNKNOWN and each.provider not in self._for_account
        ]
        settings = snapshot.state.settings
        options = ("--service-account", account) if account else ()
        self._command = shlex.join(("keyferry", "explain", answer.image, *options, *settings.place_options()))
        self._facts = Facts(
            answer=answer,
            config={"path": settings.text("providerConfig"), "binDir": settings.text("binDir")},
            command=self._command,
        )

    def explain(self) -> ExplainedPull:
        """Return the steps in the kubelet's order, and the verdict."""
        verdict = self._verdict()
        steps = (
            ExplainedStep(name="secrets", title="Pull secrets", state=StepState.UNKNOWN, lines=(_SECRETS,)),
            ExplainedStep(
                name="node-config", title="Node config", state=StepState.UNKNOWN, lines=(_NODE_CONFIG,)
            ),
            self._providers(),
            self._keys(),
            self._order(),
            ExplainedStep(name="verdict", title="Verdict", state=self._verdict_state(), lines=(verdict,)),
        )
        return ExplainedPull(
            image=printable(self._answer.image),
            account=printable(self._account),
            verdict=verdict,
            steps=steps,
            cures=tuple(dict.fromkeys(self._cures())),
            in_full=self._in_full(),
        )

    def _in_full(self) -> tuple[Advice, ...]:
        """Return the commands that have what the agent has not."""
        namespace, slash, name = self._account.partition("/")
        pod = shlex.join(
            ("keyferry", "explain", "pod/POD", "-n", namespace or "NAMESPACE", "--check-registry")
        )
        account = shlex.join(("kubectl", "get", "serviceaccount", name, "-n", namespace, "-o", "yaml"))
        found = (
            _advice(
                "With the node's docker config; plugins are run, and each credential is tried at the registry:",
                f"{self._command} --docker-config auto --check-registry",
            ),
            _advice(
                "The same with the pull secrets of a pod, which are read from the cluster; POD is its name:",
                pod,
            ),
        )
        return (
            (*found, _advice("The pull secrets that the service account names:", account)) if slash else found
        )

    def _providers(self) -> ExplainedStep:
        lines = [*self._provider_lines(), *self._missed(), *self._traps()]
        more = len(lines) - _MAX_LINES
        shown = [*lines[:_MAX_LINES], f"and {more} more"] if more > 0 else lines
        return ExplainedStep(
            name="providers",
            title="Providers",
            state=self._provider_state(),
            lines=tuple(map(printable, shown)),
        )

    def _provider_state(self) -> StepState:
        if any(self._failure(each.provider) for each in self._unknown):
            return StepState.BROKEN
        if self._unknown:
            return StepState.UNKNOWN
        return StepState.USED if self._answer.provisions else StepState.PASSED

    def _provider_lines(self) -> Iterator[str]:
        unknown = {each.provider for each in self._unknown}
        for reason in self._reasons(ReasonStage.MATCH, ReasonStage.PROVIDER):
            if reason.outcome is ReasonOutcome.NO_MATCH:
                continue
            if reason.stage is ReasonStage.PROVIDER and reason.subject in self._for_account:
                yield f"{reason.subject}: {self._held_text(self._for_account[reason.subject])}"
            elif reason.stage is ReasonStage.PROVIDER and reason.subject in unknown:
                yield from self._would_run(reason.subject)
            else:
                yield f"{reason.subject}: {reason.text}"

    def _would_run(self, name: str) -> Iterator[str]:
        provider = self._by_name[name]
        whose = ""
        if provider.config.token_attributes is not None:
            whose = f" with a token of {self._account or 'the service account of the pod'}"
        yield f"{name}: would run the plugin {name!r}{whose}"
        last = self._failure(name)
        if last is not None:
            yield f"{name}: its last run failed: {own_words(last.error)}"

    def _failure(self, name: str) -> LastFailure | None:
        """Return the failure of the provider's last run for this image, or of its last run at all."""
        provider = self._by_name[name]
        for each in reversed(provider.unserved_failures()):
            if each.failure.image == self._answer.name:
                return each.failure
        return provider.last_failure if provider.counters.read().has_last_failed else None

    def _missed(self) -> Iterator[str]:
        """Yield the patterns that nearly match, if none does, and the number of the other providers."""
        answer = self._answer
        near = [] if answer.provisions else [each for each in find_misses(answer) if each.is_near]
        yield from map(describe_miss, near)
        others = len(answer.providers) - len(answer.matching) - len({each.source.name for each in near})
        if others > 0:
            yield f"{others} provider{' does' if others == 1 else 's do'} not match the image"

    def _traps(self) -> Iterator[str]:
        return (f"Beware: {reason.text}" for reason in self._reasons(ReasonStage.TRAP))

    def _keys(self) -> ExplainedStep:
        found = list(self._reasons(ReasonStage.KEY))
        lines = [f"{hide_user_info(each.subject)!r} {each.text}" for each in found[:_MAX_LINES]]
        if len(found) > _MAX_LINES:
            lines.append(f"and {len(found) - _MAX_LINES} more")
        state = StepState.USED if self._answer.credentials else StepState.PASSED
        if not found:
            lines = ["No key is known before a plugin has answered" if self._unknown else "There is no key"]
            state = StepState.UNKNOWN if self._unknown else StepState.PASSED
        return ExplainedStep(name="keys", title="Keys", state=state, lines=tuple(map(printable, lines)))

    def _order(self) -> ExplainedStep:
        credentials = self._answer.credentials
        lines = [
            f"{at}. the login of {each.source}, key {hide_user_info(each.key)!r}"
            for at, each in enumerate(credentials[:_MAX_LINES], 1)
        ]
        state = StepState.USED
        if not lines:
            state = StepState.UNKNOWN if self._unknown else StepState.PASSED
            lines = ["Nothing to put in order"]
        return ExplainedStep(name="order", title="Order", state=state, lines=tuple(map(printable, lines)))

    def _verdict(self) -> str:
        answer = self._answer
        if not answer.matching:
            text = "No provider matches: without a pull secret or a docker config, the pull is anonymous"
        elif self._unknown:
            names = ", ".join(repr(each.provider) for each in self._unknown)
            text = f"Would run the plugin{'s' if len(self._unknown) > 1 else ''} {names}"
            if self._provider_state() is StepState.BROKEN:
                text += "; the last run failed"
        elif self._for_account:
            ends = [each.expires_ns for each in self._for_account.values() if each.expires_ns is not None]
            text = f"Would answer from the cache until {self._time(min(ends))}, to who has the same token"
        elif answer.credentials:
            ends = [each.expires_ns for each in answer.provisions if each.expires_ns is not None]
            text = f"Would answer from the cache until {self._time(min(ends))}"
        else:
            text = "Would answer from the cache, without a credential: the pull is anonymous"
        return printable(text)

    def _verdict_state(self) -> StepState:
        if self._unknown:
            return self._provider_state()
        return StepState.USED if self._answer.credentials or self._for_account else StepState.PASSED

    def _cures(self) -> Iterator[Advice]:
        for each in self._unknown:
            last = self._failure(each.provider)
            if last is not None:
                command = cure_of(self._snapshot.state, self._by_name[each.provider], last)
                yield _advice(f"See why {each.provider!r} fails:", command)
        for cure in explain(self._facts).cures:
            yield _advice(f"{cure.text[:1].upper()}{cure.text[1:]}{':' if cure.lines else ''}", *cure.lines)

    def _reasons(self, *stages: ReasonStage) -> Iterator[Reason]:
        return (reason for reason in self._answer.reasons if reason.stage in stages)

    def _find_for_account(self) -> Iterator[tuple[str, Provision]]:
        """Yield the cached answers for the account, of the providers that match, by their names."""
        for index, _ in self._answer.matching:
            name = self._answer.providers[index].name
            for provision in _held_for(self._by_name[name], self._account, self._answer.name):
                yield name, provision

    def _held_text(self, provision: Provision) -> str:
        number, end = len(provision.auth), self._time(provision.expires_ns or 0)
        keys = f"{number} auth key{'' if number == 1 else 's'}"
        return f"an answer for {self._account} is cached until {end}, for who has the same token: {keys}"

    def _time(self, instant_ns: int) -> str:
        return format_time(int(self._snapshot.wall(instant_ns) * _SECOND))


def _advice(text: str, *lines: str) -> Advice:
    return Advice(text=printable(text), lines=tuple(map(printable, lines)))


def _held_for(provider: Provider, account: str, name: str) -> Iterator[Provision]:
    for held in provider.answers():
        provision = held.provision
        is_for = not held.is_shared and account_text(provision.account) == account
        if is_for and shares_cache_key(provision.cache_key_type, held.image, name):
            yield provision
