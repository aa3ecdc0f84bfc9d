"""Metrics of exec plugins for clusters, with client-go's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.calls import ROTATION_BUCKETS, CallMetrics, Rotations

_PREFIX = "rest_client_exec_plugin"


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
        f"{_PREFIX}_ttl_seconds",
        "Seconds until the first client certificate of all exec plugins expires; +Inf if there is none",
        value=(min(ends) - now_ns) / 1e9 if ends else inf,
    )


def _rotation_metric(rotations: Rotations) -> Metric:
    bounds = [*(f"{bound:g}" for bound in ROTATION_BUCKETS), "+Inf"]
    sums = [float(sum(rotations.buckets[: at + 1])) for at in range(len(bounds))]
    return HistogramMetricFamily(
        f"{_PREFIX}_certificate_rotation_age",
        "Age in seconds of client certificates of exec plugins when they were replaced",
        buckets=list(zip(bounds, sums, strict=True)),
        sum_value=rotations.seconds,
    )


def _call_metric(calls: dict[tuple[int, str], int]) -> Metric:
    metric = CounterMetricFamily(
        f"{_PREFIX}_call", "Runs of exec plugins, by exit code and status", labels=["code", "call_status"]
    )
    for (code, status), number in sorted(calls.items()):
        metric.add_metric([str(code), status], number)
    return metric


def _policy_metric(decisions: dict[str, int]) -> Metric:
    """Return the metric that client-go declares but does not register; its label is keyferry's own."""
    metric = CounterMetricFamily(
        f"{_PREFIX}_policy_call", "Decisions of the policy for exec plugins", labels=["decision"]
    )
    for decision, number in sorted(decisions.items()):
        metric.add_metric([decision], number)
    return metric
