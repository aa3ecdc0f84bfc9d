"""The configs in force: one load gives settings, providers and rules; a reload keeps the old ones if it fails."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable

from keyferry._core.values import Value
from keyferry.agent.access import AccessPolicy
from keyferry.agent.log import AgentLog, LogLevel
from keyferry.agent.providers import AgentProviders
from keyferry.agent.settings import (
    DEFAULT_CONFIG,
    AgentSettings,
    Given,
    check_config_files,
    config_files,
    resolve_settings,
)
from keyferry.errors import ConfigError, EnvironmentProblem, KeyferryError
from keyferry.images.load import ProviderSettings, make_providers_of
from keyferry.images.node.settings import Node
from keyferry.images.provider.cache import CacheEntry, CacheLimits
from keyferry.images.provider.provider import Provider

_SECOND = 1_000_000_000
# What systemd tells the agent alone: where to report, by when, and which sockets are its own.
_OF_SYSTEMD = {
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "FDSTORE"),
}
# What a file was when it was looked at; None for one that is missing.
_FileState = tuple[int, int, int, int, int] | None
Fingerprint = tuple[tuple[str, _FileState], ...]
_MAX_ATTEMPTS = 25
# Longer than the steps of the clock that file systems use.
_REST_NS = 20_000_000
# Settings of the sockets and of the page, which a running process keeps.
FIXED = ("socket", "socketMode", "socketGroup", "page", "metrics")
_MAX_REMEMBERED = 50


class AgentState(Value):
    """The settings, providers and rules in force since a load; requests use one state from start to end."""

    settings: AgentSettings
    providers: AgentProviders
    policy: AccessPolicy
    loaded_at: float

    def has_config(self, config_hash: str, bin_dir: str) -> bool:
        """Return whether the providers are those of a config with this hash, with plugins in this folder."""
        own = os.path.abspath(self.settings.text("binDir"))
        return self.providers.config_hash == config_hash and own == bin_dir


def load_state(
    given: Given,
    on_cached: Callable[[Provider, CacheEntry], None] | None = None,
    previous: AgentState | None = None,
    *,
    node: Node | None = None,
) -> AgentState:
    """Read and check all configs; raise ConfigError or EnvironmentProblem.

    Providers of *previous* that have not changed stay, with their caches.
    """
    settings = resolve_settings(given, node=node)
    # A pipe would hold up the start, or a reload.
    check_config_files(settings.text("providerConfig"))
    of_providers = ProviderSettings(
        timeout_seconds=settings.number("pluginTimeout") / _SECOND,
        cache_limits=CacheLimits(
            entries=settings.number("cacheEntries"), bytes=settings.number("cacheBytes")
        ),
        on_cached=on_cached,
        environ=_plugin_environment(),
    )
    # A cache with other limits is a new one.
    is_same = previous is not None and all(
        previous.settings.values[name] == settings.values[name] for name in ("cacheEntries", "cacheBytes")
    )
    kept = previous.providers.providers if previous is not None and is_same else ()
    files = settings.text("providerConfig"), settings.text("binDir")
    providers = make_providers_of(AgentProviders, *files, of_providers, kept)
    config = settings.config
    policy = AccessPolicy(config.access or (), config.manage or (), own_uid=os.geteuid())
    return AgentState(settings=settings, providers=providers, policy=policy, loaded_at=time.time())


def _plugin_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_SYSTEMD}
    # A shim that the agent runs by mistake must not ask the agent.
    return kept | {"KEYFERRY_AGENT": "off"}


class ReloadOutcome(Value):
    """One load: when, whether it was put in force, since when all were or were not, and every problem if not."""

    at: float
    is_applied: bool
    since: float
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def fingerprint(paths: tuple[str, ...]) -> Fingerprint:
    """Return the state of files, and of the config files in folders; links are followed.

    A file that is replaced by rename has another inode, and so has one behind a ConfigMap's links. The folders
    themselves do not count, since they change with every editor's backup.
    """
    return tuple((name, _state_of(name)) for path in paths for name in config_files(path))


def _state_of(path: str, *, is_exact: bool = False) -> _FileState:
    try:
        found = os.stat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode) and not is_exact:
        return found.st_dev, found.st_ino, 0, 0, 0
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _exact_fingerprint(paths: tuple[str, ...]) -> Fingerprint:
    """Return the same with the folders' own times, which change with every link that is swapped in them."""
    folders = tuple((path, _state_of(path, is_exact=True)) for path in paths)
    return (*fingerprint(paths), *folders)


def _is_at_rest(look: Fingerprint) -> bool:
    """Return whether no file changed a moment ago: two changes in a moment have the same time."""
    now_ns = time.time_ns()
    return not any(state is not None and 0 <= now_ns - state[4] < _REST_NS for _, state in look)


class Reloader:
    """The state in force, and the last loads.

    `load` replaces the state; `is_due` tells whether the files have changed and are at rest.
    """

    def __init__(
        self,
        given: Given,
        log: AgentLog,
        on_cached: Callable[[Provider, CacheEntry], None] | None = None,
        load: Callable[..., AgentState] = load_state,
    ) -> None:
        """Load the first state; raise ConfigError or EnvironmentProblem."""
        self._given = given
        self._log = log
        self._on_cached = on_cached
        self._load = load
        self._seen: Fingerprint = ()
        self._last_look: Fingerprint = ()
        self.succeeded = self.failed = 0
        self.state, self._seen = self._read(None)
        now = time.time()
        first = ReloadOutcome(at=now, is_applied=True, since=now)
        self.history: deque[ReloadOutcome] = deque((first,), maxlen=_MAX_REMEMBERED)

    @property
    def last(self) -> ReloadOutcome:
        """The last load."""
        return self.history[-1]

    def is_due(self) -> bool:
        """Return whether a file differs from what was last loaded, and has not changed since the last call."""
        look = fingerprint(_paths_of(self.state))
        is_at_rest, self._last_look = look == self._last_look, look
        return is_at_rest and look != self._seen

    def load(self) -> ReloadOutcome:
        """Read and check all configs, and put them in force if they are right; it blocks, and is not reentrant."""
        # A change during a load that fails is a reason for another one.
        self._seen = fingerprint(_paths_of(self.state))
        try:
            state, self._seen = self._read(self.state)
        except KeyferryError as error:
            self.failed += 1
            problems = error.problems if isinstance(error, ConfigError) else (error,)
            self._remember(is_applied=False, problems=tuple(map(str, problems)))
            for problem in self.last.problems:
                self._log.write(
                    LogLevel.ERROR, "the new config is refused; the old one stays", problem=problem
                )
            return self.last
        notes = tuple(
            f"{name}: the new value counts after a restart"
            for name in FIXED
            if state.settings.values.get(name) != self.state.settings.values.get(name)
        )
        self.state = state
        self.succeeded += 1
        self._remember(is_applied=True, notes=notes)
        self._log.write(
            LogLevel.INFO,
            "reloaded",
            providers=len(state.providers.providers),
            hash=state.providers.config_hash,
            note="; ".join(notes),
        )
        return self.last

    def _remember(
        self, *, is_applied: bool, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> None:
        now = time.time()
        # Kept in each outcome, since the history has an end.
        since = self.last.since if self.last.is_applied is is_applied else now
        self.history.append(
            ReloadOutcome(at=now, is_applied=is_applied, since=since, problems=problems, notes=notes)
        )

    def _read(self, previous: AgentState | None) -> tuple[AgentState, Fingerprint]:
        """Return a state whose files did not change while they were read, and the state of the files.

        Raise EnvironmentProblem if they do not come to rest.
        """
        paths = () if previous is None else _paths_of(previous)
        for _ in range(_MAX_ATTEMPTS):
            before = _exact_fingerprint(paths)
            if not _is_at_rest(before):
                time.sleep(_REST_NS / 1e9)
                continue
            state = self._load(self._given, self._on_cached, previous)
            # Otherwise it may be a mixture of two configs, or of files that were not looked at before.
            if _paths_of(state) == paths and _exact_fingerprint(paths) == before:
                return state, fingerprint(paths)
            paths = _paths_of(state)
        raise EnvironmentProblem("the config changes again and again while it is read")


def _paths_of(state: AgentState) -> tuple[str, ...]:
    return state.settings.config_file or DEFAULT_CONFIG, state.settings.text("providerConfig")
