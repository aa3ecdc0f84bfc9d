"""A fleet of nodes that ask one token endpoint, on a clock of events: boots, pulls, renewals, restarts.

The nodes' cache, flights and failures are those of a real `Provider`, and keyferry's renewals are planned by the
agent's own `RefreshPlan`: a change there changes the result. While a run of the plugin is under way, the other pods
of its node ask too, and join it or not, as the provider decides. One provider and one plan hold the entries of all
nodes, each under a registry name of its own, so that the entries of one node are nothing to another.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from heapq import heappop, heappush
from math import log
from random import Random
from typing import NamedTuple, Protocol

from keyferry.agent.refresh import PlannedRefresh, RefreshPlan
from keyferry.agent.settings import DEFAULTS
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import KeyferryError, PluginExitError, PluginTimeoutError
from keyferry.images.provider.cache import CacheEntry, CacheLimits
from keyferry.images.provider.provider import Provider

SECOND = 1_000_000_000
LIFE_NS = 12 * 3600 * SECOND
# Pods of a node that wait for the registry when it boots; their images are pulled in parallel.
PODS = 3
# How long a run of the plugin takes that gets an answer; a refusal comes at once.
RUN_NS = SECOND // 2
# Afterwards, how often a node pulls, on average.
PULL_EVERY_NS = 600 * SECOND
# The kubelet's pauses between the pulls of one image, without jitter.
_FIRST_BACK_OFF_NS, _MAX_BACK_OFF_NS = 10 * SECOND, 300 * SECOND
_RESPONSE = CredentialProviderResponse(
    cache_key_type="Registry",
    cache_duration_ns=LIFE_NS,
    auth={"*.example": AuthConfig(username="user", password="token")},
)
_NAME = "fleet"


class Quota(NamedTuple):
    """The requests a second that an endpoint answers, and how many at once after a rest; 0 for no limit."""

    rate: int
    burst: int


UNLIMITED = Quota(0, 0)


class Endpoint:
    """A token bucket, and how many requests came in each second."""

    def __init__(self, quota: Quota, seconds: int, limited_from_ns: int = 0) -> None:
        self.asked = array("I", bytes(4 * seconds))
        self.throttled = array("I", bytes(4 * seconds))
        self._interval_ns = SECOND // quota.rate if quota.rate else 0
        self._burst_ns = self._interval_ns * quota.burst
        self._limited_from_ns = limited_from_ns
        # The instant at which the bucket is full again.
        self._full_at_ns = 0

    def ask(self, now_ns: int) -> bool:
        """Count a request; return whether it is answered."""
        if self.is_empty(now_ns):
            self.refuse(now_ns, 1)
            return False
        self.asked[now_ns // SECOND] += 1
        if now_ns >= self._limited_from_ns:
            self._full_at_ns = max(self._full_at_ns, now_ns) + self._interval_ns
        return True

    def is_empty(self, now_ns: int) -> bool:
        """Return whether a request would not be answered."""
        full_at_ns = max(self._full_at_ns, now_ns) + self._interval_ns
        return now_ns >= self._limited_from_ns and full_at_ns - now_ns > self._burst_ns

    def refuse(self, now_ns: int, number: int) -> None:
        """Count requests that are not answered."""
        second = now_ns // SECOND
        self.asked[second] += number
        self.throttled[second] += number


class Renewals(Protocol):
    """When cached answers are renewed."""

    def note(self, refresh: PlannedRefresh, expires_ns: int, now_ns: int) -> None:
        """Plan the renewal of an answer that was cached now."""

    def next_ns(self) -> int | None:
        """Return the instant of the next renewal, which may be too early."""

    def take_due(self, now_ns: int) -> PlannedRefresh | None:
        """Return a renewal that is due."""

    def fail(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Plan another attempt."""

    def finish(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Forget a renewal that is over."""


class Keyferry(RefreshPlan):
    """The agent's own plan; every answer is in use."""

    def __init__(self, random: Random) -> None:
        super().__init__(random.random, int(DEFAULTS["refreshIdle"]))

    def note(self, refresh: PlannedRefresh, expires_ns: int, now_ns: int) -> None:
        """Plan the renewal; a pull has used the answer since the last one."""
        super().note(refresh, expires_ns, now_ns)
        self.use(refresh.provider, refresh.base, now_ns)


class Never:
    """The kubelet: nothing is renewed before somebody needs it."""

    def __init__(self, random: Random) -> None:
        del random

    def note(self, refresh: PlannedRefresh, expires_ns: int, now_ns: int) -> None:
        """Plan nothing."""

    def next_ns(self) -> int | None:
        """Return None."""
        return None

    def take_due(self, now_ns: int) -> PlannedRefresh | None:
        """Return None."""

    def fail(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Do nothing."""

    def finish(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Do nothing."""


class _Rule:
    """Renewals by a rule: a share of the life, and pauses after failures."""

    def __init__(self, random: Random) -> None:
        self._random = random.random
        self._entries: dict[str, tuple[int, PlannedRefresh, int, int]] = {}
        self._queue: list[tuple[int, str]] = []

    def at_ns(self, got_ns: int, life_ns: int) -> int:
        """Return when an answer is renewed."""
        raise NotImplementedError

    def pause_ns(self, failures: int) -> int:
        """Return the pause after so many failures in a row."""
        raise NotImplementedError

    def note(self, refresh: PlannedRefresh, expires_ns: int, now_ns: int) -> None:
        """Plan the renewal of an answer that was cached now."""
        self._add(self.at_ns(now_ns, expires_ns - now_ns), refresh, expires_ns, 0)

    def next_ns(self) -> int | None:
        """Return the instant of the next renewal."""
        return self._queue[0][0] if self._queue else None

    def take_due(self, now_ns: int) -> PlannedRefresh | None:
        """Return a renewal that is due."""
        while self._queue and self._queue[0][0] <= now_ns:
            at_ns, base = heappop(self._queue)
            entry = self._entries.get(base)
            if entry is not None and entry[0] == at_ns:
                return entry[1]
        return None

    def fail(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Plan another attempt, unless the answer expires before it."""
        _, _, expires_ns, failures = self._entries.pop(refresh.base)
        at_ns = now_ns + self.pause_ns(failures)
        if at_ns < expires_ns:
            self._add(at_ns, refresh, expires_ns, failures + 1)

    def finish(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """Forget a renewal that is over, if no other is planned."""
        entry = self._entries.get(refresh.base)
        if entry is not None and entry[0] <= now_ns:
            del self._entries[refresh.base]

    def _add(self, at_ns: int, refresh: PlannedRefresh, expires_ns: int, failures: int) -> None:
        self._entries[refresh.base] = at_ns, refresh, expires_ns, failures
        heappush(self._queue, (at_ns, refresh.base))


class HalfLife(_Rule):
    """SPIRE: at half of the life, 10 % of that more or less; pauses from 5 s to 2 minutes, 10 % more or less."""

    def at_ns(self, got_ns: int, life_ns: int) -> int:
        """Return when an answer is renewed."""
        return got_ns + int(life_ns / 2 * (0.9 + 0.2 * self._random()))

    def pause_ns(self, failures: int) -> int:
        """Return the pause after so many failures in a row."""
        return int(min(5.0 * 1.5 ** min(failures, 20), 120.0) * (0.9 + 0.2 * self._random()) * SECOND)


class FourFifths(_Rule):
    """The kubelet's rule for service account tokens: at 80 % of the life, up to 10 s later."""

    def at_ns(self, got_ns: int, life_ns: int) -> int:
        """Return when an answer is renewed."""
        return got_ns + int(life_ns * 0.8 + 10 * SECOND * self._random())

    def pause_ns(self, failures: int) -> int:
        """Return the pause after so many failures in a row: another sync of the pod, about a minute later."""
        del failures
        return int((60 + 30 * self._random()) * SECOND)


class Clock:
    """A clock that stands still between events."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns


class Fleet:
    """Nodes, the endpoint that they ask, and what is to happen; `run` lets it happen."""

    def __init__(
        self,
        nodes: int,
        renewals: Callable[[Random], Renewals],
        endpoint: Endpoint,
        *,
        seed: int = 1,
        is_thorough: bool = False,
    ) -> None:
        """Make a fleet; one that is *thorough* takes no short cut, for the same result."""
        self.endpoint = endpoint
        # Pulls that found no valid credential, by second.
        self.failed_pulls = array("I", bytes(4 * len(endpoint.asked)))
        # When the last node got its first credential; None while one has none.
        self.complete_at_ns: int | None = None
        self._nodes = nodes
        self._is_thorough = is_thorough
        self._lacking = bytearray(b"\1") * nodes
        self._number_lacking = nodes
        self._random = Random(seed)  # noqa: S311 - the same numbers in every run
        self._renewals = renewals(self._random)
        self._clock = Clock()
        self._provider = Provider(
            CredentialProvider(name=_NAME, match_images=("*.example",), default_cache_duration_ns=0),
            self._run_plugin,
            clock=self._clock,
            # The kubelet shares a run only with lookups of the same image.
            coalesce=not isinstance(self._renewals, Never),
            # A lookup that waits for another one's run tells so at once: the clock does not go on while it waits.
            timeout_seconds=0.0,
            cache_limits=CacheLimits(entries=4 * nodes + 1, bytes=1 << 60),
            on_cached=self._note,
        )
        self._problem = PluginExitError(_NAME, 1)
        # Lookups that begin while the plugin runs, and the errors of those that began.
        self._beginning: list[str] = []
        self._errors: list[KeyferryError | None] = []
        self._generations = [0] * nodes
        self._is_watched = bytearray(nodes)
        self._is_pulling = bytearray(nodes)
        self._events: list[tuple[int, int, Callable[[int, int, int], None], int, int, int]] = []
        self._events_so_far = 0

    def boot(self, within_seconds: int) -> None:
        """Let all nodes boot within some seconds, each with its pods."""
        for node in range(self._nodes):
            self._is_pulling[node] = 1
            self._schedule(int(self._random.random() * within_seconds * SECOND), self._pull, node, PODS)

    def restart(self, at_second: int, within_seconds: int, *, hands_over: bool) -> None:
        """Let the agents of all nodes be replaced within some seconds, with or without their caches."""
        for node in range(self._nodes):
            at_ns = int((at_second + self._random.random() * within_seconds) * SECOND)
            self._schedule(at_ns, self._replace, node, int(hands_over))

    def run(self) -> None:
        """Let everything happen, up to the end of the endpoint's record."""
        end_ns = len(self.endpoint.asked) * SECOND
        events, renewals, clock = self._events, self._renewals, self._clock
        while True:
            due_ns = renewals.next_ns()
            if due_ns is not None and (not events or due_ns <= events[0][0]):
                if due_ns >= end_ns:
                    return
                clock.now_ns = due_ns
                due = renewals.take_due(due_ns)
                if due is not None:
                    self._renew(due)
            elif events and events[0][0] < end_ns:
                clock.now_ns, _, happen, node, number, attempt = heappop(events)
                happen(node, number, attempt)
            else:
                return

    def _schedule(
        self,
        at_ns: int,
        happen: Callable[[int, int, int], None],
        node: int,
        number: int = 0,
        attempt: int = 0,
    ) -> None:
        self._events_so_far += 1
        heappush(self._events, (at_ns, self._events_so_far, happen, node, number, attempt))

    def _registry(self, node: int) -> str:
        return f"n{node}-{self._generations[node]}.example"

    def _image(self, node: int, pod: int = 0) -> str:
        return f"{self._registry(node)}/{pod}"

    def _run_plugin(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        del request, timeout_seconds
        now_ns = self._clock.now_ns
        is_answered = self.endpoint.ask(now_ns)
        # One after the other begins, and each that runs the plugin too lets the next one begin.
        while self._beginning:
            self._begin()
            self._clock.now_ns = now_ns
        if not is_answered:
            raise self._problem
        self._clock.now_ns = now_ns + RUN_NS
        return _RESPONSE, RUN_NS / SECOND

    def _note(self, provider: Provider, entry: CacheEntry) -> None:
        """Plan the renewal of what was cached, as the agent does; look at the node when it expires."""
        self._renewals.note(
            PlannedRefresh(provider=provider.name, base=entry.base, image=entry.image),
            entry.expires_ns,
            self._clock.now_ns,
        )
        node = _node_of(entry.base)
        if not self._is_watched[node]:
            self._is_watched[node] = 1
            self._schedule(entry.expires_ns + 1, self._watch, node)
        if self._lacking[node]:
            self._lacking[node] = 0
            self._number_lacking -= 1
            if not self._number_lacking:
                self.complete_at_ns = self._clock.now_ns

    def _renew(self, due: PlannedRefresh) -> None:
        if due.base != self._registry(_node_of(due.base)):
            self._renewals.finish(due, self._clock.now_ns)  # of an agent that was replaced
            return
        is_renewed = self._provider.refresh(due.image).error is None
        (self._renewals.finish if is_renewed else self._renewals.fail)(due, self._clock.now_ns)

    def _pull(self, node: int, pods: int, attempt: int) -> None:
        """Pull the images of some pods at once; those that fail are pulled again after the kubelet's pause."""
        now_ns = self._clock.now_ns
        failed = self._ask(node, pods)
        self._is_pulling[node] = failed > 0
        if failed:
            self.failed_pulls[now_ns // SECOND] += failed
            pause_ns = min(_FIRST_BACK_OFF_NS << min(attempt, 10), _MAX_BACK_OFF_NS)
            self._schedule(now_ns + pause_ns, self._pull, node, failed, attempt + 1)

    def _ask(self, node: int, pods: int) -> int:
        """Ask for the credentials of some pods at once; return how many got none.

        If the first one needs a run of the plugin, the others ask while it is under way. Whether they wait for it is
        up to the provider. Those that waited for a run that failed run the plugin then, all at the same time.
        """
        now_ns = self._clock.now_ns
        # An endpoint that has nothing left refuses all pods of this instant, and a refusal leaves no trace in the
        # provider, so that they can be counted without it.
        if not self._is_thorough and self.endpoint.is_empty(now_ns) and not self._has_credential(node):
            self.endpoint.refuse(now_ns, pods)
            return pods
        self._beginning = [self._image(node, pod) for pod in range(pods)]
        self._errors = []
        while self._beginning:
            self._begin()
        waited = [each for each in self._errors if isinstance(each, PluginTimeoutError)]
        failed = sum(each is not None for each in self._errors) - len(waited)
        if not waited or self._has_credential(node):
            return failed
        for pod in range(len(waited)):
            self._clock.now_ns = now_ns
            failed += self._provider.refresh(self._image(node, pod)).error is not None
        return failed

    def _begin(self) -> None:
        """Let the next lookup begin; it ends here too, unless it waits for the run of another one."""
        image = self._beginning.pop()
        self._errors.append(self._provider.provide(image).error)

    def _has_credential(self, node: int) -> bool:
        return self._provider.recall(self._image(node)) is not None

    def _expect_pull(self, node: int) -> None:
        """A node without a credential asks for one at its next pull."""
        if not self._is_pulling[node]:
            self._is_pulling[node] = 1
            wait_ns = int(-log(1.0 - self._random.random()) * PULL_EVERY_NS)
            self._schedule(self._clock.now_ns + wait_ns, self._pull, node, 1)

    def _watch(self, node: int, number: int, attempt: int) -> None:
        """Look whether a credential has expired that was not renewed."""
        del number, attempt
        valid = self._provider.recall(self._image(node))
        if valid is None or valid.expires_ns is None:
            self._is_watched[node] = 0
            self._expect_pull(node)
        else:
            self._schedule(valid.expires_ns + 1, self._watch, node)

    def _replace(self, node: int, hands_over: int, attempt: int) -> None:
        """Replace a node's agent: what it has is under a name that nobody asks for any more."""
        del attempt
        handed = self._provider.recall(self._image(node))
        self._generations[node] += 1
        if hands_over and handed is not None:
            self._provider.restore(self._image(node), handed)
        else:
            self._expect_pull(node)


def _node_of(base: str) -> int:
    return int(base[1 : base.index("-")])
