"""The metrics of providers, of exec plugins and of pull records, for the package ``prometheus_client``.

The kubelet's and client-go's metrics have their own names; those of keyferry start with ``keyferry_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.call_metrics import ROTATION_BUCKETS, CallMetrics, Rotations
from keyferry.errors import RecordError
from keyferry.images.lookup import Providers
from keyferry.images.provider.counters import BUCKETS, CAUSES, Counts
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.state import ProviderState, standing_of
from keyferry.pulls.records.records import Records

_EXEC = "rest_client_exec_plugin"
_RECORDS = "kubelet_imagemanager"


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
        yield _state_metric(counts)
        yield _lookup_metric(counts)
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
        durations.add_metric([provider.name], _cumulative(BUCKETS, count.buckets), sum_value=count.seconds)
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


def _state_metric(counts: list[tuple[Provider, Counts]]) -> Metric:
    """Return the state of each provider as the agent's page and status name it, so that alerts say the same."""
    states = GaugeMetricFamily(
        "keyferry_provider_state",
        "The state of a provider by its last runs: 1 for the one that it is in, 0 for the others",
        labels=["plugin_name", "state"],
    )
    for provider, count in counts:
        found = standing_of(provider, count).state
        for state in ProviderState:
            states.add_metric([provider.name, state], state is found)
    return states


def _lookup_metric(counts: list[tuple[Provider, Counts]]) -> Metric:
    lookups = CounterMetricFamily(
        "keyferry_provider_lookups",
        "Lookups of a provider: a cache hit, a miss that ran the plugin, or a run shared with another lookup",
        labels=["plugin_name", "result"],
    )
    for provider, count in counts:
        lookups.add_metric([provider.name, "hit"], count.hits)
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
        flights.add_metric([provider.name], provider.runs_under_way())
    yield flights
    yield GaugeMetricFamily(
        "keyferry_lookups_waiting",
        "Asynchronous lookups and renewals that wait for a thread, since all are busy with plugin executions",
        value=providers.waiting(),
    )


class ClusterCollector(Collector):
    """The metrics of all exec plugins of this process."""

    def __init__(
        self,
        calls: CallMetrics,
        authenticators: Callable[[], Iterable[Authenticator]],
        clock: Callable[[], int],
    ) -> None:
        self._calls = calls
        self._authenticators = authenticators
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its value now."""
        yield _ttl_metric(self._authenticators(), self._clock())
        yield _rotation_metric(self._calls.rotations)
        yield _call_metric(self._calls.calls)
        yield _policy_metric(self._calls.decisions)


def _ttl_metric(authenticators: Iterable[Authenticator], now_ns: int) -> Metric:
    ends = [span[1] for each in authenticators if (span := each.certificate_span_ns()) is not None]
    return GaugeMetricFamily(
        f"{_EXEC}_ttl_seconds",
        "Seconds until the first client certificate of all exec plugins expires; +Inf if there is none",
        value=(min(ends) - now_ns) / 1e9 if ends else inf,
    )


def _rotation_metric(rotations: Rotations) -> Metric:
    return HistogramMetricFamily(
        f"{_EXEC}_certificate_rotation_age",
        "Age in seconds of client certificates of exec plugins when they were replaced",
        buckets=_cumulative(ROTATION_BUCKETS, rotations.buckets),
        sum_value=rotations.seconds,
    )


def _call_metric(calls: dict[tuple[int, str], int]) -> Metric:
    metric = CounterMetricFamily(
        f"{_EXEC}_call", "Runs of exec plugins, by exit code and status", labels=["code", "call_status"]
    )
    for (code, status), number in sorted(calls.items()):
        metric.add_metric([str(code), status], number)
    return metric


def _policy_metric(decisions: dict[str, int]) -> Metric:
    """Return the metric that client-go declares but does not register; its label is keyferry's own."""
    metric = CounterMetricFamily(
        f"{_EXEC}_policy_call", "Decisions of the policy for exec plugins", labels=["decision"]
    )
    for decision, number in sorted(decisions.items()):
        metric.add_metric([decision], number)
    return metric


class RecordsCollector(Collector):
    """The metrics of pull records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its value now."""
        yield from _disk_metrics(self._records)
        yield from _memory_metrics(self._records)
        yield _check_metric(self._records)
        yield _request_metric(self._records)


def _disk_metrics(records: Records) -> Iterator[Metric]:
    """Yield the numbers of files; they are absent, not 0, if the folders cannot be read."""
    intents = GaugeMetricFamily(f"{_RECORDS}_ondisk_pullintents", "Pull intent files on disk")
    pulled = GaugeMetricFamily(f"{_RECORDS}_ondisk_pulledrecords", "Pulled record files on disk")
    try:
        counts = records.files.count()
    except RecordError:
        counts = None
    if counts is not None:
        intents.add_metric([], counts[0])
        pulled.add_metric([], counts[1])
    yield from (intents, pulled)


def _memory_metrics(records: Records) -> Iterator[Metric]:
    intents = GaugeMetricFamily(
        f"{_RECORDS}_inmemory_pullintents_usage_percent",
        "Usage of the in-memory cache of pull intents in percent",
    )
    pulled = GaugeMetricFamily(
        f"{_RECORDS}_inmemory_pulledrecords_usage_percent",
        "Usage of the in-memory cache of pulled records in percent",
    )
    memory = records.memory
    if memory is not None:
        intents.add_metric([], memory.intents.usage_percent)
        pulled.add_metric([], memory.records.usage_percent)
    yield from (intents, pulled)


def _check_metric(records: Records) -> Metric:
    checks = CounterMetricFamily(
        f"{_RECORDS}_image_mustpull_checks",
        "Decisions whether an image on the node must be pulled to verify a pod's credentials",
        labels=["result"],
    )
    for result, number in sorted(records.counters.checks.items()):
        checks.add_metric([result], number)
    return checks


def _request_metric(records: Records) -> Metric:
    requests = CounterMetricFamily(
        "kubelet_image_manager_ensure_image_requests",
        "Requests for images, by pull policy, whether the image was on the node, and whether a pull was required",
        labels=["pull_policy", "present_locally", "pull_required"],
    )
    for labels, number in sorted(records.counters.requests.items()):
        requests.add_metric(list(labels), number)
    return requests


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the counts up to each bound, as in the exposition format."""
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return [(name, float(sum(counts[: at + 1]))) for at, name in enumerate(names)]
