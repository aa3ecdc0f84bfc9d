"""Metrics of pull records, under the kubelet's names.

Needs ``keyferry[metrics]``. Nothing listens: register the collector where your program's metrics are.
"""

from collections.abc import Iterator

from keyferry._core.extras import missing_extra

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise missing_extra("metrics", missing) from None

from keyferry.errors import RecordError
from keyferry.pulls.records.records import Records

_PREFIX = "kubelet_imagemanager"


def pull_metrics_collector(records: Records) -> Collector:
    """A collector to register: ``REGISTRY.register(keyferry.pull_metrics_collector(records))``."""
    return _RecordsCollector(records)


class _RecordsCollector(Collector):
    def __init__(self, records: Records) -> None:
        self._records = records

    def collect(self) -> Iterator[Metric]:
        yield from _disk_metrics(self._records)
        yield from _memory_metrics(self._records)
        yield _check_metric(self._records)
        yield _request_metric(self._records)


def _disk_metrics(records: Records) -> Iterator[Metric]:
    """The number of files; absent, and not 0, if the folders cannot be read."""
    intents = GaugeMetricFamily(f"{_PREFIX}_ondisk_pullintents", "Files of pull intents on disk")
    pulled = GaugeMetricFamily(f"{_PREFIX}_ondisk_pulledrecords", "Files of pulled records on disk")
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
        f"{_PREFIX}_inmemory_pullintents_usage_percent", "How full the memory for pull intents is"
    )
    pulled = GaugeMetricFamily(
        f"{_PREFIX}_inmemory_pulledrecords_usage_percent", "How full the memory for pulled records is"
    )
    memory = records.memory
    if memory is not None:
        intents.add_metric([], memory.intents.usage_percent)
        pulled.add_metric([], memory.records.usage_percent)
    yield from (intents, pulled)


def _check_metric(records: Records) -> Metric:
    checks = CounterMetricFamily(
        f"{_PREFIX}_image_mustpull_checks",
        "Decisions whether an image that is here must be pulled to verify a pod's credentials",
        labels=["result"],
    )
    for result, number in sorted(records.counters.checks.items()):
        checks.add_metric([result], number)
    return checks


def _request_metric(records: Records) -> Metric:
    requests = CounterMetricFamily(
        "kubelet_image_manager_ensure_image_requests",
        "Needs of images, by pull policy, whether the image was here, and whether a pull was required",
        labels=["pull_policy", "present_locally", "pull_required"],
    )
    for labels, number in sorted(records.counters.requests.items()):
        requests.add_metric(list(labels), number)
    return requests
