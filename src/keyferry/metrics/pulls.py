"""Metrics of pull records, with the kubelet's names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from keyferry.errors import RecordError
from keyferry.pulls.records.records import Records

_PREFIX = "kubelet_imagemanager"


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
    intents = GaugeMetricFamily(f"{_PREFIX}_ondisk_pullintents", "Pull intent files on disk")
    pulled = GaugeMetricFamily(f"{_PREFIX}_ondisk_pulledrecords", "Pulled record files on disk")
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
        f"{_PREFIX}_inmemory_pullintents_usage_percent",
        "Usage of the in-memory cache of pull intents in percent",
    )
    pulled = GaugeMetricFamily(
        f"{_PREFIX}_inmemory_pulledrecords_usage_percent",
        "Usage of the in-memory cache of pulled records in percent",
    )
    memory = records.memory
    if memory is not None:
        intents.add_metric([], memory.intents.usage_percent)
        pulled.add_metric([], memory.records.usage_percent)
    yield from (intents, pulled)


def _check_metric(records: Records) -> Metric:
    checks = CounterMetricFamily(
        f"{_PREFIX}_image_mustpull_checks",
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
