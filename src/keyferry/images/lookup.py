"""Lookup: which credentials the kubelet would try for an image, and in which order."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry._core.log import log_debug
from keyferry._core.type_forms import Protocol, T
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.images.answer import Answer, Provision, ProvisionOutcome
from keyferry.images.dockerconfig import DockerConfig, PullSecret, load_docker_config, read_pull_secret
from keyferry.images.keyring import (
    Credential,
    Keyring,
    SecretRef,
    Source,
    SourceKind,
    join_keyrings,
    lookup_all,
)
from keyferry.images.match import Pattern, PatternIndex
from keyferry.images.provider.accounts import Pod
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import ImageName, parse_image
from keyferry.invoke.run import kill_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    class _Submitted(Protocol):
        """A future of any result."""

        def running(self) -> bool: ...
        def cancel(self) -> bool: ...
        def done(self) -> bool: ...


_NODE_CONFIG_NS = 5 * 60 * 1_000_000_000
MAX_THREADS = 64

_alive: weakref.WeakSet[Providers] = weakref.WeakSet()


class _Question(Value):
    """A parsed lookup: the image, the providers that match it with their patterns, and the pod."""

    name: ImageName
    matching: tuple[tuple[int, str], ...]
    pod: Pod | None = None
    pull_secrets: Sequence[PullSecret] = field(default=(), repr=False)


class Providers:
    """The credential providers of a node; safe to use from threads, from asyncio and after a fork."""

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        config_hash: str | Callable[[], str] = "",
        docker_config: str | None = None,
        clock: Callable[[], int] = monotonic_ns,
        patterns: Sequence[Sequence[Pattern]] | None = None,
    ) -> None:
        """Create providers; *patterns* are the patterns of each provider, if they are already parsed."""
        self._config_hash = config_hash
        self._providers = tuple(providers)
        self._by_name = {provider.name: provider for provider in providers}
        self._configs = tuple(provider.config for provider in providers)
        of_each: Iterable[Iterable[str | Pattern]] = (
            (config.match_images or () for config in self._configs) if patterns is None else patterns
        )
        self._index = PatternIndex((owner, each) for owner, found in enumerate(of_each) for each in found)
        self._clock = clock
        self._node = None if docker_config is None else _NodeConfig(docker_config)
        self._executor: ThreadPoolExecutor | None = None
        # What threads are to do, until it is done.
        self._submitted: set[_Submitted] = set()
        self._executor_lock = Lock()
        _alive.add(self)

    def __repr__(self) -> str:
        return f"<Providers: {', '.join(self._by_name) or 'none'}>"

    @property
    def config_hash(self) -> str:
        """The hash of the config's files, as the kubelet exports it; computed on first use."""
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
        image: str | ImageName,
        *,
        pod: Pod | None = None,
        pull_secrets: Sequence[PullSecret] = (),
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Return the credentials for *image*, in the order the kubelet would try them.

        Pull secrets come first, then the node's docker config, then providers.
        A provider that fails, or does not respond within *timeout_seconds*, is listed in the failures of
        the answer; a run that other lookups wait for continues. Raise ImageNameError for
        an image that does not parse, PullSecretError for a pull secret that cannot be read.
        """
        return self._ask(self._question(image, pod, pull_secrets), timeout_seconds)

    async def lookup_async(
        self,
        image: str | ImageName,
        *,
        pod: Pod | None = None,
        pull_secrets: Sequence[PullSecret] = (),
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Return what ``lookup`` returns, without blocking the event loop.

        Cancellation does not stop a running plugin: as in the kubelet, its response is cached.
        """
        question = self._question(image, pod, pull_secrets)
        recalled = self._recall(question)
        if recalled is not None:
            return recalled
        import asyncio

        asked = monotonic()
        queued = self._submit(self._ask, question, timeout_seconds, asked)
        answer = asyncio.wrap_future(queued)
        if timeout_seconds is not None:
            try:
                await asyncio.wait((answer,), timeout=timeout_seconds)
            except asyncio.CancelledError:
                answer.cancel()
                raise
            if queued.cancel():  # all threads are busy; the rest does not wait for a run
                return await asyncio.to_thread(self._ask, question, timeout_seconds, asked)
        return await answer

    def evict(self, image: str | ImageName, credential: Credential) -> bool:
        """Remove a provider's credential, which a registry refused, from the cache; the next lookup runs the plugin.

        Return False if it is not cached, or if the same cache entry was evicted
        less than 30 seconds ago.
        """
        name = parse_image(image).repository
        evicted = [
            provider.evict(name, credential.username, credential.password)
            for provider in self._providers
            if credential.source.kind == SourceKind.PROVIDER and provider.name == credential.source.name
        ]
        return any(evicted)

    def waiting(self) -> int:
        """Return the number of lookups and renewals that wait for a thread, since all are busy with plugin runs."""
        return sum(not each.running() and not each.done() for each in tuple(self._submitted))

    def _question(
        self, image: str | ImageName, pod: Pod | None, pull_secrets: Sequence[PullSecret]
    ) -> _Question:
        name = parse_image(image)
        matching = self._index.match(name.repository)
        return _Question(name=name, matching=matching, pod=pod, pull_secrets=pull_secrets)

    def _recall(self, question: _Question) -> Answer | None:
        """Return the answer if all of it is in memory, else None; nothing is read, run or waited for."""
        node = self._node_kept()
        if node is None or question.pull_secrets:
            return None
        repository = question.name.repository
        matching = [self._providers[owner] for owner, _ in question.matching]
        provisions = []
        for provider in matching:
            provision = provider.recall(repository, question.pod)
            if provision is None:
                return None
            provisions.append(provision)
        for provider, provision in zip(matching, provisions, strict=True):
            if provision.outcome is ProvisionOutcome.CACHED:
                provider.counters.hit()
        log_debug("images", "%s: all of the answer is in memory", repository)
        return self._finish(question, tuple(provisions), [], node)

    def _node_kept(self) -> list[Keyring] | None:
        """Return a list of the node's keyring, if there is one; None if its file must be read."""
        return [] if self._node is None else self._node.kept(self._clock)

    def _ask(self, question: _Question, timeout_seconds: float | None, asked: float | None = None) -> Answer:
        # The lookup may have waited for a thread.
        waited = 0.0 if asked is None else monotonic() - asked
        secrets = pull_secrets_keyring(question.pull_secrets)
        node = [] if self._node is None else self._node.read(self._clock)
        repository, number = question.name.repository, len(question.matching)
        log_debug("images", "%s: %d provider%s", repository, number, " matches" if number == 1 else "s match")
        provisions = tuple(
            [
                self._providers[owner].provide(
                    repository, question.pod, timeout_seconds, waited_seconds=waited
                )
                for owner, _ in question.matching
            ]
        )
        return self._finish(question, provisions, secrets, node)

    def _finish(
        self,
        question: _Question,
        provisions: tuple[Provision, ...],
        secrets: list[Keyring],
        node: list[Keyring],
    ) -> Answer:
        # All providers share one keyring, as in the kubelet: credentials are tried in the order of its keys.
        of_providers = join_keyrings([provision.keyring for provision in provisions])
        keyrings = (*secrets, *node, of_providers)
        return Answer(
            image=question.name.text,
            name=question.name.repository,
            credentials=tuple(lookup_all(keyrings, question.name.repository)),
            provisions=provisions,
            matching=question.matching,
            providers=self._configs,
            keyrings=keyrings,
            answered_ns=self._clock(),
        )

    def _submit(self, call: Callable[..., T], *arguments: object) -> Future[T]:
        future = self._threads().submit(call, *arguments)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def _cancel_waiting(self) -> int:
        """Cancel the lookups that wait for a thread; return the number of those that have one."""
        return sum(not each.cancel() for each in tuple(self._submitted))

    def _threads(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._executor_lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="keyferry-lookup")
            return self._executor

    def _reset_after_fork(self) -> None:
        self._executor = None
        self._submitted = set()
        self._executor_lock = Lock()
        for provider in self._providers:
            provider.reset_after_fork()


def cancel_runs() -> int:
    """Kill the plugins that run for asynchronous lookups; return how many lookups have not ended yet.

    For a process that is about to end and would otherwise wait for them. A lookup may still run its next plugin, so
    repeat this until none is left.
    """
    left = sum(providers._cancel_waiting() for providers in list(_alive))  # noqa: SLF001 - a class of this module
    if left:
        kill_runs()
    return left


def _reset_all_after_fork() -> None:
    for providers in list(_alive):
        providers._reset_after_fork()  # noqa: SLF001 - a class of this module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_after_fork)


class _NodeConfig:
    """The node's docker config file, read at most every five minutes, as in the kubelet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: tuple[int, Keyring] | None = None

    def kept(self, clock: Callable[[], int]) -> list[Keyring] | None:
        """Return a list of the keyring that was read; None if the file must be read."""
        kept = self._read
        return None if kept is None or clock() > kept[0] else [kept[1]]

    def read(self, clock: Callable[[], int]) -> list[Keyring]:
        """Return a list of the keyring, and read the file if it was not read for too long."""
        kept = self.kept(clock)
        if kept is not None:
            return kept
        keyring = Keyring()
        source = Source(kind=SourceKind.NODE_DOCKER_CONFIG, name=self._path)
        until = clock() + _NODE_CONFIG_NS
        keyring.add(source, _docker_entries(load_docker_config(self._path)))
        self._read = until, keyring
        return [keyring]


def pull_secrets_keyring(secrets: Sequence[PullSecret]) -> list[Keyring]:
    """Return a list with one keyring of all pull secrets, in order, or an empty list."""
    if not secrets:
        return []
    keyring = Keyring()
    for secret in secrets:
        entries = read_pull_secret(secret)
        ref = SecretRef(namespace=secret.namespace, name=secret.name, uid=secret.uid)
        source = Source(kind=SourceKind.PULL_SECRET, name=f"{secret.namespace}/{secret.name}", secret=ref)
        keyring.add(source, _docker_entries(entries or {}))
    return [keyring]


def _docker_entries(config: DockerConfig) -> Iterable[tuple[str, str, str, str]]:
    return ((key, entry.username, entry.password, entry.email) for key, entry in config.items())
