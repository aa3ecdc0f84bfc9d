"""Metrics of credential providers: the kubelet's metrics with their names, and keyferry's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from keyferry.images.lookup import Providers
from keyferry.images.provider.counters import BUCKETS, CAUSES, Counts
from keyferry.images.provider.provider import Provider


class ProvidersCollector(Collector):
    """The metrics of some credential providers."""

    def __init__(self, providers: Providers, clock: Callable[[], int]) -> None:
        self._providers = providers
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its value now."""
        providers = self._providers.providers
        counts = [(provider, provider.counters.read()) for provider in providers]
        yield from _kubelet_metrics(counts, self._providers.config_hash)
        yield from _run_metrics(counts)
        yield _lookup_metric(counts, self._providers.cache_hits())
        yield _expiry_metric(providers, self._clock())
        yield from _cache_metrics(providers)
        yield from _queue_metrics(self._providers)


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
        for kind in sorted({*CAUSES, *count.failures}):
            failures.add_metric([provider.name, str(kind)], count.failures.get(kind, 0))
    yield from (runs, failures)


def _lookup_metric(counts: list[tuple[Provider, Counts]], hits: dict[str, int]) -> Metric:
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


def _expiry_metric(providers: tuple[Provider, ...], now_ns: int) -> Metric:
    """Return when credentials expire; in whole seconds, since the clocks of caches and of timestamps differ."""
    expiry = GaugeMetricFamily(
        "keyferry_credential_expiry_timestamp_seconds",
        "When the first cached answer of a provider expires, in seconds since 1970; absent if none is cached",
        labels=["plugin_name"],
    )
    for provider in providers:
        seconds = provider.soonest_expiry_seconds()
        if seconds is not None:
            expiry.add_metric([provider.name], round(now_ns / 1e9 + seconds))
    return expiry


def _cache_metrics(providers: tuple[Provider, ...]) -> Iterator[Metric]:
    def gauge(name: str, documentation: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"keyferry_cache_{name}", documentation, labels=["plugin_name", "cache"])

    entries = gauge("entries", "Cached answers: shared by everybody, or of one tenant's token")
    most_entries = gauge("entries_limit", "The most answers that are cached; the oldest are dropped")
    size = gauge("size_bytes", "The approximate memory of the cached answers")
    most_bytes = gauge("size_limit_bytes", "The most memory of cached answers; the oldest are dropped")
    for provider in providers:
        for cache, use in zip(("shared", "tenant"), provider.cache_uses(), strict=True):
            labels = [provider.name, cache]
            entries.add_metric(labels, use.entries)
            most_entries.add_metric(labels, use.limits.entries)
            size.add_metric(labels, use.bytes)
            most_bytes.add_metric(labels, use.limits.bytes)
    yield from (entries, most_entries, size, most_bytes)


def _queue_metrics(providers: Providers) -> Iterator[Metric]:
    flights = GaugeMetricFamily(
        "keyferry_plugin_flights", "Plugin executions under way", labels=["plugin_name"]
    )
    for provider in providers.providers:
        flights.add_metric([provider.name], provider.flights())
    yield flights
    yield GaugeMetricFamily(
        "keyferry_lookups_waiting",
        "Asynchronous lookups and renewals that wait for a thread, since all are busy with plugin executions",
        value=providers.waiting(),
    )


def _buckets(count: Counts) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as in the exposition format."""
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    return [(bound, float(sum(count.buckets[: at + 1]))) for at, bound in enumerate(bounds)]
