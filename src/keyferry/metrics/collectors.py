"""The collectors of keyferry's figures for Prometheus.

Calling one requires ``keyferry[metrics]``, importing it does not. None starts a server: register the collector in your
program's registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keyferry._core.clock import time_ns
from keyferry._core.extras import missing_extra
from keyferry.clusters.auth.authenticator import Authenticator, living_authenticators
from keyferry.clusters.auth.call_metrics import CALLS, CallMetrics
from keyferry.images.lookup import Providers
from keyferry.pulls.records.records import Records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def metrics_collector(providers: Providers, *, clock: Callable[[], int] = time_ns) -> Collector:
    """Return a collector for *providers*.

    Register it with ``REGISTRY.register(keyferry.metrics_collector(providers))``. *clock* returns the wall time in
    nanoseconds since 1970.
    """
    try:
        from keyferry.metrics.prometheus import ProvidersCollector
    except ImportError as missing:
        raise missing_extra("metrics", missing) from None
    return ProvidersCollector(providers, clock)


def cluster_metrics_collector(
    calls: CallMetrics = CALLS,
    *,
    authenticators: Callable[[], Iterable[Authenticator]] = living_authenticators,
    clock: Callable[[], int] = time_ns,
) -> Collector:
    """Return a collector for all exec plugins of this process.

    Register it with ``REGISTRY.register(keyferry.cluster_metrics_collector())``. As in client-go, no label
    contains the name of a plugin, a user or a cluster.
    """
    try:
        from keyferry.metrics.prometheus import ClusterCollector
    except ImportError as missing:
        raise missing_extra("metrics", missing) from None
    return ClusterCollector(calls, authenticators, clock)


def pull_metrics_collector(records: Records) -> Collector:
    """Return a collector for *records*.

    Register it with ``REGISTRY.register(keyferry.pull_metrics_collector(records))``.
    """
    try:
        from keyferry.metrics.prometheus import RecordsCollector
    except ImportError as missing:
        raise missing_extra("metrics", missing) from None
    return RecordsCollector(records)
