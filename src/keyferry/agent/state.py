"""What one load of the agent's configs gives: settings, providers, and the rules of access."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from keyferry._core.values import Value
from keyferry.agent.access import AccessPolicy
from keyferry.agent.settings import AgentSettings, Given, check_config_files, resolve_settings
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.node.settings import Node
from keyferry.images.provider.cache import CacheEntry, CacheLimits
from keyferry.images.provider.provider import Provider

__all__ = ["AgentState", "load_state"]

_SECOND = 1_000_000_000
# What systemd tells the agent alone: where to report, by when, and which sockets are its own.
_OF_SYSTEMD = {
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "FDSTORE"),
}


class AgentState(Value):
    """The settings, providers and rules in force since a load; requests use one state from start to end."""

    settings: AgentSettings
    providers: Providers
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
    providers = make_providers(settings.text("providerConfig"), settings.text("binDir"), of_providers, kept)
    config = settings.config
    policy = AccessPolicy(config.access or (), config.manage or (), own_uid=os.geteuid())
    return AgentState(settings=settings, providers=providers, policy=policy, loaded_at=time.time())


def _plugin_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_SYSTEMD}
    # A shim that the agent runs by mistake must not ask the agent.
    return kept | {"KEYFERRY_AGENT": "off"}
