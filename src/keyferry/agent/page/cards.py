"""The providers as the page shows them: state, last runs, why they fail, and what their plugin is given."""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.secrets import mask_arguments, printable
from keyferry._core.user_info import hide_user_info
from keyferry.agent.health import cure_of, reason_of, unstable_text
from keyferry.agent.journal import own_words
from keyferry.agent.state import AgentState
from keyferry.api.meta import format_duration
from keyferry.errors import KeyferryError, Kind, PluginExitError, PluginTimeoutError
from keyferry.images.provider.counters import BUCKETS, Counts
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.runs import LastFailure
from keyferry.images.provider.state import ProviderState, said_first, said_lines, standing_of
from keyferry.page.model import LastError, LatencyBucket, PluginFacts, ProviderCard, RunMark

_HEALTHY = (ProviderState.WELL, ProviderState.NO_CREDENTIAL, ProviderState.UNUSED)
# Why less is shown of a failure than the plugin printed.
_SAID_ONE = (
    "With secrets masked. Other lines are not shown here: 'keyferry agent status -o json' has the last ones."
)
_SAID_ALL = "With secrets masked."
_SAID_NOTHING = "The plugin printed nothing on its standard error."
_OUTPUT_HIDDEN = "What it printed on its standard output is never shown: a credential may be in it."


def make_card(
    state: AgentState,
    provider: Provider,
    *,
    cached: int,
    next_refresh: float | None,
    wall: Callable[[int], float],
) -> ProviderCard:
    """Return the card of a provider that has *cached* answers."""
    counts = provider.counters.read()
    found = standing_of(provider, counts)
    is_healthy = found.state in _HEALTHY
    return ProviderCard(
        name=provider.name,
        state=found.state,
        patterns=tuple(map(hide_user_info, provider.config.match_images or ())),
        plugin=_plugin_facts(provider),
        cached=cached,
        hits=counts.hits,
        runs=counts.runs,
        failures=sum(counts.failures.values()),
        recent=tuple(
            RunMark(at=wall(each.at_ns), seconds=each.seconds, has_failed=each.has_failed)
            for each in counts.recent
        ),
        latency=_latency(counts),
        last_run=None if counts.last_run_ns is None else wall(counts.last_run_ns),
        streak_since=None if found.since_ns is None else wall(found.since_ns),
        next_refresh=next_refresh,
        trouble="" if is_healthy else reason_of(found.failure),
        unstable=unstable_text(counts) if found.state is ProviderState.UNSTABLE else "",
        last_error=_last_error(found.failure, wall),
        cure="" if is_healthy else printable(cure_of(state, provider, found.failure)),
    )


def _plugin_facts(provider: Provider) -> PluginFacts:
    """Return what the plugin is given: of its variables the names alone, and its arguments with secrets masked."""
    config = provider.config
    plugin = provider.plugin if isinstance(provider.plugin, ExecPlugin) else None
    attributes = config.token_attributes
    duration_ns = config.default_cache_duration_ns
    return PluginFacts(
        path="" if plugin is None else plugin.path,
        arguments=() if plugin is None else mask_arguments(plugin.args),
        variables=() if plugin is None else tuple(name for name, _ in plugin.env),
        cache_duration="" if duration_ns is None else format_duration(duration_ns),
        audience="" if attributes is None else attributes.service_account_token_audience,
        cache_type="" if attributes is None else attributes.cache_type,
        is_for_accounts=attributes is not None,
    )


def _latency(counts: Counts) -> tuple[LatencyBucket, ...]:
    limits = (*BUCKETS, None)
    return tuple(
        LatencyBucket(up_to_seconds=limit, runs=runs)
        for limit, runs in zip(limits, counts.buckets, strict=True)
    )


def _last_error(last: LastFailure | None, wall: Callable[[int], float]) -> LastError | None:
    if last is None:
        return None
    return LastError(
        text=printable(own_words(last.error)),
        said=printable(said_first(last.error)),
        hidden=_why_hidden(last.error),
        at=wall(last.at_ns),
        image=printable(last.image),
    )


def _why_hidden(error: KeyferryError) -> str:
    """Return why not all that the plugin printed is shown; empty if it was not run."""
    if isinstance(error, PluginExitError | PluginTimeoutError):
        number = len(said_lines(error))
        return _SAID_ONE if number > 1 else _SAID_ALL if number else _SAID_NOTHING
    return _OUTPUT_HIDDEN if error.kind in (Kind.PROTOCOL, Kind.OUTPUT) else ""
