"""The agent's figures for Prometheus, beside those of its providers."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from keyferry.agent.refresher import Refresher
from keyferry.agent.reload import Reloader
from keyferry.agent.usage import Usage
from keyferry.metrics.images import metrics_collector

__all__ = ["CONTENT_TYPE", "render_figures"]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _AgentCollector(Collector):
    def __init__(
        self, reloader: Reloader, refresher: Refresher, usage: Usage, connections: Callable[[], int]
    ) -> None:
        self._reloader = reloader
        self._refresher = refresher
        self._usage = usage
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "keyferry_agent_requests", "Requests on the socket, by HTTP status", labels=["status"]
        )
        for status, number in sorted(self._usage.by_status.items()):
            requests.add_metric([str(status)], number)
        refreshes = CounterMetricFamily(
            "keyferry_agent_refreshes", "Renewals of cached answers before they expire", labels=["result"]
        )
        refreshes.add_metric(["success"], self._refresher.succeeded)
        refreshes.add_metric(["failure"], self._refresher.failed)
        yield from (requests, refreshes)
        last = self._reloader.last
        yield _gauge(
            "keyferry_config_reload_success",
            "Whether the last load of the configs is in force",
            last.is_applied,
        )
        yield _gauge(
            "keyferry_config_last_reload_success_timestamp_seconds",
            "When the configs in force were loaded",
            self._reloader.state.loaded_at,
        )
        yield _gauge("keyferry_agent_connections", "Open connections on the socket", self._connections())
        yield _gauge(
            "keyferry_agent_planned_refreshes",
            "Cached answers that will be renewed",
            len(self._refresher.plan),
        )


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def render_figures(
    reloader: Reloader, refresher: Refresher, usage: Usage, connections: Callable[[], int]
) -> bytes:
    """Return all figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(metrics_collector(reloader.state.providers))
    registry.register(_AgentCollector(reloader, refresher, usage, connections))
    return generate_latest(registry)
