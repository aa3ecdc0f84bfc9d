"""The agent's figures for Prometheus, beside those of its providers, of exec plugins and of its process."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from keyferry import __version__
from keyferry._core.clock import monotonic_ns, time_ns
from keyferry.agent.connection import ConnectionTable
from keyferry.agent.journal import Usage
from keyferry.agent.refresh import Refresher
from keyferry.agent.state import Reloader
from keyferry.metrics.collectors import cluster_metrics_collector, metrics_collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_FORBIDDEN, _TOO_MANY_REQUESTS, _BAD_REQUEST = 403, 429, 400
_SECOND = 1_000_000_000


class _AgentCollector(Collector):
    def __init__(
        self, reloader: Reloader, refresher: Refresher, usage: Usage, connections: ConnectionTable
    ) -> None:
        self._reloader = reloader
        self._refresher = refresher
        self._usage = usage
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        names = [provider.name for provider in self._reloader.state.providers.providers]
        yield _build_metric()
        yield from _request_metrics(self._usage, self._connections)
        yield from _refresh_metrics(self._refresher, names)
        yield from _reload_metrics(self._reloader)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _build_metric() -> Metric:
    build = GaugeMetricFamily(
        "keyferry_build_info", "The version of keyferry, and of Python", labels=["version", "python_version"]
    )
    build.add_metric([__version__, ".".join(map(str, sys.version_info[:3]))], 1)
    return build


def _request_metrics(usage: Usage, connections: ConnectionTable) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "keyferry_agent_requests",
        "Requests on the socket, by HTTP status; a look at the agent counts only if it is refused",
        labels=["status"],
    )
    for status, number in sorted(usage.by_status.items()):
        requests.add_metric([str(status)], number)
    refused = CounterMetricFamily(
        "keyferry_agent_clients_refused",
        "Requests and connections on the socket that were refused, by reason",
        labels=["reason"],
    )
    reasons = {
        "forbidden": usage.by_status.get(_FORBIDDEN, 0),
        "malformed": usage.by_status.get(_BAD_REQUEST, 0) + connections.malformed,
        "too-many-connections": connections.refused,
        "too-many-evictions": usage.by_status.get(_TOO_MANY_REQUESTS, 0),
        "too-many-lookups": usage.too_many_lookups,
        "too-slow": connections.too_slow,
    }
    for reason, number in reasons.items():
        refused.add_metric([reason], number)
    yield from (requests, refused)
    yield _gauge("keyferry_agent_connections", "Open connections on the socket", len(connections))
    yield _gauge("keyferry_agent_connections_limit", "The most connections on the socket", connections.most)


def _refresh_metrics(refresher: Refresher, names: list[str]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "keyferry_agent_refreshes",
        "Renewals of cached answers before they expire",
        labels=["plugin_name", "result"],
    )
    planned = GaugeMetricFamily(
        "keyferry_agent_planned_refreshes", "Cached answers that will be renewed", labels=["plugin_name"]
    )
    following = GaugeMetricFamily(
        "keyferry_agent_next_refresh_timestamp_seconds",
        "When the next cached answer of a provider is renewed, in seconds since 1970; absent if none is",
        labels=["plugin_name"],
    )
    found, now_ns = refresher.plan.instants(), monotonic_ns()
    instants: dict[str, list[int]] = {name: [] for name in names}
    for provider, at_ns in found:
        if provider in instants:
            instants[provider].append(at_ns)
    for name in names:
        outcomes.add_metric([name, "success"], refresher.outcomes.get((name, True), 0))
        outcomes.add_metric([name, "failure"], refresher.outcomes.get((name, False), 0))
        planned.add_metric([name], len(instants[name]))
        if instants[name]:
            following.add_metric([name], round((time_ns() + min(instants[name]) - now_ns) / _SECOND))
    yield from (outcomes, planned, following)
    yield _gauge(
        "keyferry_agent_overdue_refreshes",
        "Planned renewals whose time has come: they are under way, or wait for others",
        sum(at_ns <= now_ns for _, at_ns in found),
    )


def _reload_metrics(reloader: Reloader) -> Iterator[Metric]:
    reloads = CounterMetricFamily(
        "keyferry_config_reloads", "Loads of the configs after the first, by result", labels=["result"]
    )
    reloads.add_metric(["success"], reloader.succeeded)
    reloads.add_metric(["failure"], reloader.failed)
    yield reloads
    yield _gauge(
        "keyferry_config_reload_success",
        "Whether the last load of the configs is in force",
        reloader.last.is_applied,
    )
    yield _gauge(
        "keyferry_config_last_reload_success_timestamp_seconds",
        "When the configs in force were loaded, in seconds since 1970",
        reloader.state.loaded_at,
    )


def render_figures(
    reloader: Reloader, refresher: Refresher, usage: Usage, connections: ConnectionTable
) -> bytes:
    """Return all figures in Prometheus' text format."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(metrics_collector(reloader.state.providers))
    registry.register(cluster_metrics_collector())
    registry.register(_AgentCollector(reloader, refresher, usage, connections))
    return generate_latest(registry)
