"""The whole question: which credentials the kubelet would try for an image, and in which order."""

import os
import weakref
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.images.answer import Answer
from keyferry.images.dockerconfig import DockerConfig, PullSecret, load_docker_config, read_pull_secret
from keyferry.images.keyring import Credential, Keyring, SecretRef, Source, lookup_all
from keyferry.images.match.index import PatternIndex
from keyferry.images.provider.accounts import Pod
from keyferry.images.provider.cache import MOST_BYTES, auth_bytes
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.provision import How, Provision
from keyferry.images.reference import normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_MOST_WARM = 4096
_NODE_CONFIG_NS = 5 * 60 * 1_000_000_000
_FOREVER_NS = 1 << 62
_MOST_THREADS = 64
# Reasons tell the time left in tenths of a second, so that an answer given less than one ago is given again as it is.
_INSTANT_NS = 100_000_000

_alive: "weakref.WeakSet[Providers]" = weakref.WeakSet()


class _Warm:
    """A finished answer, good until an instant; how often it was given is counted without a lock."""

    __slots__ = ("answer", "expires_ns", "seen", "tick")

    def __init__(self, answer: Answer, expires_ns: int) -> None:
        self.answer = answer
        self.expires_ns = expires_ns
        # next() on a count is one uninterrupted step, so no hit is lost between threads;
        # ``seen`` may lag behind for an instant and is right again with the next hit.
        self.tick = count(1).__next__
        self.seen = 0

    def cached_from(self) -> Iterable[str]:
        """The providers whose caches the answer stands for."""
        return (provision.provider for provision in self.answer.provisions if provision.how is How.CACHED)


class Providers:
    """The credential providers of a node; safe to call from threads, from asyncio and after a fork."""

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        config_hash: str | Callable[[], str] = "",
        docker_config: str | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._config_hash = config_hash
        self._providers = tuple(providers)
        self._configs = tuple(provider.config for provider in providers)
        self._index = PatternIndex(
            (owner, pattern)
            for owner, provider in enumerate(providers)
            for pattern in provider.config.match_images or ()
        )
        self._clock = clock
        self._node = _NodeConfig(docker_config)
        self._warm: dict[str, _Warm] = {}
        self._warm_bytes = 0
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = allocate_lock()
        _alive.add(self)

    @property
    def config_hash(self) -> str:
        """The hash of the config's files, as the kubelet exports it; found when somebody asks."""
        if not isinstance(self._config_hash, str):
            self._config_hash = self._config_hash()
        return self._config_hash

    @property
    def configs(self) -> tuple[CredentialProvider, ...]:
        """The configured providers, in order."""
        return self._configs

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The providers themselves, with their caches and counters."""
        return self._providers

    def lookup(
        self,
        image: str,
        *,
        pod: Pod | None = None,
        pull_secrets: Sequence[PullSecret] = (),
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Credentials for *image*, in the order the kubelet would try them.

        Pull secrets come first, then the node's docker config, then providers.
        A provider that fails is listed in the answer, one that did not answer within *timeout_seconds* too,
        whoever started its run; a run that others wait for goes on. Raises ImageNameError for
        an image that does not parse, PullSecretError for a secret that does not.
        """
        if pod is None and not pull_secrets and (warm := self._find_warm(image)) is not None:
            return warm
        return self._look_up(image, pod, pull_secrets, timeout_seconds)

    async def lookup_async(
        self,
        image: str,
        *,
        pod: Pod | None = None,
        pull_secrets: Sequence[PullSecret] = (),
        timeout_seconds: float | None = None,
    ) -> Answer:
        """As ``lookup``, without blocking the event loop.

        Cancelling does not stop a plugin that runs: as in the kubelet, its answer is kept for the next one.
        """
        if pod is None and not pull_secrets and (warm := self._find_warm(image)) is not None:
            return warm
        import asyncio

        asked = monotonic()
        queued = self._threads().submit(self._look_up, image, pod, pull_secrets, timeout_seconds, asked)
        answer = asyncio.wrap_future(queued)
        if timeout_seconds is not None:
            try:
                await asyncio.wait((answer,), timeout=timeout_seconds)
            except asyncio.CancelledError:
                answer.cancel()
                raise
            if queued.cancel():  # all threads were taken: what is left to do now waits for nobody
                return await asyncio.to_thread(
                    self._look_up, image, pod, pull_secrets, timeout_seconds, asked
                )
        return await answer

    def evict(self, image: str, credential: Credential) -> bool:
        """Forget a credential of a provider that a registry refused, so that the next lookup asks anew.

        False if there was nothing to forget, or if the same answer was evicted
        less than half a minute ago: then asking again would not help.
        """
        name = normalise(image)
        evicted = [
            provider.evict(name, credential.username, credential.password)
            for provider in self._providers
            if credential.source.kind == "provider" and provider.name == credential.source.name
        ]
        self._drop_warm()
        return any(evicted)

    def cache_hits(self) -> dict[str, int]:
        """Answers given from memory so far, by provider."""
        hits = {provider.name: provider.counters.read().hits for provider in self._providers}
        for warm in list(self._warm.values()):
            for provider in warm.cached_from():
                hits[provider] += warm.seen
        return hits

    def _find_warm(self, image: str) -> Answer | None:
        warm = self._warm.get(image)
        if warm is None:
            return None
        now = self._clock()
        if now > warm.expires_ns:
            return None
        warm.seen = warm.tick()
        answer = warm.answer
        if not 0 <= now - answer.answered_ns < _INSTANT_NS:
            answer = warm.answer = answer.given_again(now)
        return answer

    def _look_up(
        self,
        image: str,
        pod: Pod | None,
        pull_secrets: Sequence[PullSecret],
        timeout_seconds: float | None,
        asked: float | None = None,
    ) -> Answer:
        # Where many ask at once, one may have waited for a thread.
        waited = 0.0 if asked is None else monotonic() - asked
        # Taken first: if something is evicted meanwhile, this answer goes to the table that was dropped.
        table = self._warm
        if pod is None and not pull_secrets:
            self._forget(table, image)
        name = normalise(image)
        covering = self._index.match(name)
        secrets = pull_secrets_keyring(pull_secrets)
        node, node_expires_ns = self._node.keyring(self._clock)
        provisions = tuple(
            self._providers[owner].provide(name, pod, timeout_seconds, waited_seconds=waited)
            for owner, _ in covering
        )
        keyrings = [*secrets, *node, _providers_keyring(provisions)]
        answer = Answer(
            image,
            name,
            tuple(lookup_all(keyrings, name)),
            provisions,
            covering,
            self._configs,
            tuple(keyrings),
            answered_ns=self._clock(),
        )
        if pod is None and not pull_secrets:
            self._keep_warm(table, answer, node_expires_ns)
        return answer

    def _keep_warm(self, table: dict[str, _Warm], answer: Answer, expires_ns: int) -> None:
        """Keep an answer that only time can change: all of it from caches, or nothing to ask."""
        for provision in answer.provisions:
            if provision.how is How.CACHED and provision.expires_ns is not None:
                expires_ns = min(expires_ns, provision.expires_ns)
            elif provision.how not in (How.SKIPPED, How.UNKNOWN):
                return
        size = sum(auth_bytes(provision.auth) for provision in answer.provisions)
        if len(table) >= _MOST_WARM or self._warm_bytes + size > MOST_BYTES:
            self._drop_warm()
            return
        self._forget(table, answer.image)
        table[answer.image] = _Warm(answer, expires_ns)
        # Not taken off again for one that is forgotten: at worst the table is dropped too soon.
        self._warm_bytes += size

    def _forget(self, table: dict[str, _Warm], image: str) -> None:
        """Drop what was kept for an image and is found to be no longer good."""
        gone = table.pop(image, None)
        if gone is not None:
            self._count_hits([gone])

    def _drop_warm(self) -> None:
        dropped, self._warm, self._warm_bytes = self._warm, {}, 0
        self._count_hits(list(dropped.values()))

    def _count_hits(self, gone: list[_Warm]) -> None:
        counters = {provider.name: provider.counters for provider in self._providers}
        for warm in gone:
            for provider in warm.cached_from():
                counters[provider].count("hits", warm.seen)

    def _threads(self) -> "ThreadPoolExecutor":
        from concurrent.futures import ThreadPoolExecutor

        with self._executor_lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="keyferry-lookup")
            return self._executor

    def _reset_after_fork(self) -> None:
        self._executor = None
        self._executor_lock = allocate_lock()
        for provider in self._providers:
            provider.reset_after_fork()


def _reset_all_after_fork() -> None:
    for providers in list(_alive):
        providers._reset_after_fork()  # noqa: SLF001 - the module's own business


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_after_fork)


class _NodeConfig:
    """The node's docker config file, read again at most every five minutes, as the kubelet does."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._read: tuple[int, Keyring] | None = None

    def keyring(self, clock: Callable[[], int]) -> tuple[list[Keyring], int]:
        """The file's keyring, if there is a file, and until when it is good."""
        if self._path is None:
            return [], _FOREVER_NS
        now = clock()
        if self._read is None or now > self._read[0]:
            keyring = Keyring()
            source = Source("node docker config", self._path)
            keyring.add(source, _docker_entries(load_docker_config(self._path)))
            self._read = now + _NODE_CONFIG_NS, keyring
        return [self._read[1]], self._read[0]


def pull_secrets_keyring(secrets: Sequence[PullSecret]) -> list[Keyring]:
    """All pull secrets of a pod, in order, as one keyring."""
    if not secrets:
        return []
    keyring = Keyring()
    for secret in secrets:
        entries = read_pull_secret(secret)
        ref = SecretRef(secret.namespace, secret.name, secret.uid)
        source = Source("pull secret", f"{secret.namespace}/{secret.name}", secret=ref)
        keyring.add(source, _docker_entries(entries or {}))
    return [keyring]


def _providers_keyring(provisions: Iterable[Provision]) -> Keyring:
    keyring = Keyring()
    for provision in provisions:
        source = Source("provider", provision.provider, service_account=provision.account)
        keyring.add(source, _auth_entries(provision.auth.items()))
    return keyring


def _docker_entries(config: DockerConfig) -> Iterable[tuple[str, str, str, str]]:
    return ((key, entry.username, entry.password, entry.email) for key, entry in config.items())


def _auth_entries(auth: Iterable[tuple[str, AuthConfig]]) -> Iterable[tuple[str, str, str, str]]:
    return ((key, entry.username, entry.password, "") for key, entry in auth)
