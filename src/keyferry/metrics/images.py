"""Metrics of credential providers: the kubelet's metrics with their names, and keyferry's own.

Requires ``keyferry[metrics]``. It starts no server: register the collector in your program's registry.
"""

from collections.abc import Iterator

from keyferry._core.extras import missing_extra

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise missing_extra("metrics", missing) from None

from keyferry.images.lookup import Providers
from keyferry.images.provider.counters import BUCKETS, Counts
from keyferry.images.provider.provider import Provider


def metrics_collector(providers: Providers) -> Collector:
    """Return a collector for *providers*.

    Register it with ``REGISTRY.register(keyferry.metrics_collector(providers))``.
    """
    return _ProvidersCollector(providers)


class _ProvidersCollector(Collector):
    def __init__(self, providers: Providers) -> None:
        self._providers = providers

    def collect(self) -> Iterator[Metric]:
        counts = [(provider, provider.counters.read()) for provider in self._providers.providers]
        yield from _kubelet_metrics(counts, self._providers.config_hash)
        yield from _run_metrics(counts)
        yield _cache_metric(counts, self._providers.cache_hits())
        yield _expiry_metric(self._providers.providers)


def _kubelet_metrics(counts: list[tuple[Provider, Counts]], config_hash: str) -> Iterator[Metric]:
    errors = CounterMetricFamily(
        "kubelet_credential_provider_plugin_errors",
        "Plugin executions that failed or timed out",
        labels=["plugin_name"],
    )
    durations = HistogramMetricFamily(
        "kubelet_credential_provider_plugin_duration",
        "Duration of plugin executions in seconds",
        labels=["plugin_name"],
    )
    for provider, count in counts:
        errors.add_metric([provider.name], count.execution_errors)
        durations.add_metric([provider.name], _buckets(count), sum_value=count.seconds)
    info = GaugeMetricFamily(
        "kubelet_credential_provider_config_info",
        "The hash of the credential provider config in use",
        labels=["hash"],
    )
    info.add_metric([config_hash], 1)
    yield from (errors, durations, info)


def _run_metrics(counts: list[tuple[Provider, Counts]]) -> Iterator[Metric]:
    runs = CounterMetricFamily("keyferry_plugin_runs", "Plugin executions", labels=["plugin_name"])
    failures = CounterMetricFamily(
        "keyferry_plugin_failures",
        "Failed lookups of a provider, by cause",
        labels=["plugin_name", "cause"],
    )
    for provider, count in counts:
        runs.add_metric([provider.name], count.runs)
        for kind, number in sorted(count.failures.items()):
            failures.add_metric([provider.name, str(kind)], number)
    yield from (runs, failures)


def _cache_metric(counts: list[tuple[Provider, Counts]], hits: dict[str, int]) -> Metric:
    lookups = CounterMetricFamily(
        "keyferry_provider_lookups",
        "Lookups of a provider: a cache hit, a miss that ran the plugin, or a run shared with another lookup",
        labels=["plugin_name", "result"],
    )
    for provider, count in counts:
        lookups.add_metric([provider.name, "hit"], hits[provider.name])
        lookups.add_metric([provider.name, "miss"], count.runs)
        lookups.add_metric([provider.name, "shared"], count.shared)
    return lookups


def _expiry_metric(providers: tuple[Provider, ...]) -> Metric:
    expiry = GaugeMetricFamily(
        "keyferry_provider_seconds_to_expiry",
        "Seconds until the first cache entry of a provider expires; absent if the cache is empty",
        labels=["plugin_name"],
    )
    for provider in providers:
        seconds = provider.soonest_expiry_seconds()
        if seconds is not None:
            expiry.add_metric([provider.name], seconds)
    return expiry


def _buckets(count: Counts) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as in the exposition format."""
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    return [(bound, float(sum(count.buckets[: at + 1]))) for at, bound in enumerate(bounds)]
