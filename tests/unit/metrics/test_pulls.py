"""Metrics of pull records have the kubelet's names and labels."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from keyferry.metrics.collectors import pull_metrics_collector
from keyferry.pulls.records.records import Records, inspect_records
from support.records import IMAGE, REF, folder_of, open_quickly, secret, with_secrets


def exposed(records: Records) -> str:
    registry = CollectorRegistry()
    registry.register(pull_metrics_collector(records))
    return generate_latest(registry).decode()


def test_every_metric_is_there(tmp_path: Path) -> None:
    """Files, memory, decisions and needs of images."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    records.record_intent("reg.example/other")
    for ref in (REF, REF, ""):
        records.decide(IMAGE, ref)
    records.counters.count_request("IfNotPresent", present_locally=True, pull_required=None)
    text = exposed(records)
    for line in (
        "kubelet_imagemanager_ondisk_pullintents 1.0",
        "kubelet_imagemanager_ondisk_pulledrecords 1.0",
        "kubelet_imagemanager_inmemory_pullintents_usage_percent 0.0",
        "kubelet_imagemanager_inmemory_pulledrecords_usage_percent 0.0",
        'kubelet_imagemanager_image_mustpull_checks_total{result="mustAuthenticate"} 2.0',
        'kubelet_image_manager_ensure_image_requests_total{present_locally="true",'
        'pull_policy="ifnotpresent",pull_required="unknown"} 1.0',
    ):
        assert line in text
    assert IMAGE not in text


def test_what_is_not_known_is_absent(tmp_path: Path) -> None:
    """Without memory, or without folders to read, there is no number, rather than 0."""
    folder_of(tmp_path)
    records = inspect_records(str(tmp_path))
    folder_of(tmp_path).rmdir()
    folder_of(tmp_path, "x").parent.joinpath("pulled").write_text("")
    text = exposed(records)
    assert "\nkubelet_imagemanager_ondisk_pulledrecords " not in text
    assert "\nkubelet_imagemanager_inmemory_pullintents_usage_percent " not in text
