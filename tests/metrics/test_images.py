"""Metrics of lookups and pull records have the kubelet's names, labels and buckets, and keyferry's own by reason."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

import keyferry
from keyferry import (
    PluginError,
    PluginExitError,
    PluginProtocolError,
    PluginTimeoutError,
    Providers,
    load_providers,
)
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.images.provider.cache import CacheLimits
from keyferry.images.provider.provider import Provider
from keyferry.pulls.records.records import inspect_records
from support.records import IMAGE, REF, folder_of, open_quickly, secret, with_secrets
from support.scripted import (
    SECOND,
    Accounts,
    Clock,
    Scripted,
    attributes,
    config_text,
    configured,
    provider,
    response,
    write_printer,
    write_script,
)

DURATION = "kubelet_credential_provider_plugin_duration"
ERRORS = "kubelet_credential_provider_plugin_errors_total"


def exposed(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def scraped(providers: Providers, clock: Callable[[], int] = time.time_ns) -> dict[str, float]:
    """Every sample as it is exposed, by name and labels."""
    lines = exposed(keyferry.metrics_collector(providers, clock=clock)).splitlines()
    samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in samples}


def one() -> tuple[Providers, Scripted, Clock]:
    clock = Clock()
    plugin = Scripted(response())
    return Providers([provider(plugin, clock)], config_hash="sha256:abc", clock=clock), plugin, clock


def test_names_and_types_are_exact() -> None:
    """The kubelet's three, and keyferry's own."""
    providers, _, _ = one()
    types = dict(re.findall(r"# TYPE (\S+) (\S+)", exposed(keyferry.metrics_collector(providers))))
    assert types == {
        "kubelet_credential_provider_plugin_errors_total": "counter",
        "kubelet_credential_provider_plugin_duration": "histogram",
        "kubelet_credential_provider_config_info": "gauge",
        "keyferry_plugin_runs_total": "counter",
        "keyferry_plugin_failures_total": "counter",
        "keyferry_provider_state": "gauge",
        "keyferry_provider_lookups_total": "counter",
        "keyferry_credential_expiry_timestamp_seconds": "gauge",
        "keyferry_cache_entries": "gauge",
        "keyferry_cache_entries_limit": "gauge",
        "keyferry_cache_size_bytes": "gauge",
        "keyferry_cache_size_limit_bytes": "gauge",
        "keyferry_plugin_flights": "gauge",
        "keyferry_lookups_waiting": "gauge",
    }


def test_the_config_is_named_by_its_hash() -> None:
    """A gauge that is always 1."""
    providers, _, _ = one()
    assert scraped(providers)['kubelet_credential_provider_config_info{hash="sha256:abc"}'] == 1


def test_the_histogram_has_the_kubelets_buckets() -> None:
    """Cumulative, by upper bound, with count and sum."""
    providers, _, _ = one()
    providers.lookup("reg.io/app")
    samples = scraped(providers)
    buckets = {
        match[1]: value
        for name, value in samples.items()
        if (match := re.fullmatch(DURATION + r'_bucket\{le="(.+)",plugin_name="plugin"\}', name))
    }
    bounds = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"]
    assert list(buckets) == bounds
    assert set(buckets.values()) == {1.0}
    assert samples[DURATION + '_count{plugin_name="plugin"}'] == 1
    assert samples[DURATION + '_sum{plugin_name="plugin"}'] == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("answer", "cause", "counted"),
    [
        (PluginExitError("plugin", 1), "exit", 1),
        (PluginTimeoutError("plugin", 60), "timeout", 1),
        (PluginProtocolError("plugin", "undecodable"), "protocol", 0),
        # Without a valid cacheKeyType: it went well as an execution.
        (response(cache_key_type="x"), "protocol", 0),
    ],
)
def test_only_failed_executions_count_as_errors(
    answer: PluginError | CredentialProviderResponse, cause: str, counted: int
) -> None:
    """An answer that is refused is a failure by reason, and none of the kubelet's errors."""
    providers, plugin, _ = one()
    plugin.answer = answer
    providers.lookup("reg.io/app")
    samples = scraped(providers)
    assert samples[ERRORS + '{plugin_name="plugin"}'] == counted
    assert samples[f'keyferry_plugin_failures_total{{cause="{cause}",plugin_name="plugin"}}'] == 1
    assert samples[DURATION + '_count{plugin_name="plugin"}'] == 1
    assert samples['keyferry_plugin_runs_total{plugin_name="plugin"}'] == 1


def state(providers: Providers) -> str:
    """Return the one state whose value is 1."""
    samples = scraped(providers)
    prefix = 'keyferry_provider_state{plugin_name="plugin",state="'
    found = {name.removeprefix(prefix)[:-2]: value for name, value in samples.items() if prefix in name}
    assert sorted(found.values()) == [0, 0, 0, 0, 0, 1]
    return max(found, key=lambda each: found[each])


def test_the_state_of_a_provider_follows_its_last_runs() -> None:
    """Unstable: three of the last ten runs failed, whatever the last one did."""
    providers, plugin, clock = one()
    works, fails = response(cache_seconds=0), PluginExitError("plugin", 1)
    seen = [state(providers)]
    for has_failed in (0, 1, 0, 1, 0, 1, *[0] * 7):
        plugin.answer = fails if has_failed else works
        providers.lookup("reg.io/app")
        clock.step(1)
        seen.append(state(providers))
    assert seen == [
        *("unused", "well", "failing", "well", "failing", "well", "failing", "unstable"),
        *["unstable"] * 4,
        *["well"] * 2,
    ]


def test_a_provider_that_fails_while_its_answer_is_served_is_told_apart() -> None:
    providers, plugin, clock = one()
    providers.lookup("reg.io/app")
    plugin.answer = PluginExitError("plugin", 1)
    providers.providers[0].refresh("reg.io/app")
    assert state(providers) == "renewal-fails"
    clock.step(601)
    assert state(providers) == "failing"
    for keys, expected in (
        (("elsewhere.io",), "no-credential"),
        ((), "no-credential"),
        (("reg.io",), "well"),
    ):
        plugin.answer = response(keys=keys, cache_seconds=1)
        providers.lookup("reg.io/app")
        clock.step(2)
        assert state(providers) == expected


def test_a_provider_fails_as_long_as_pulls_of_one_registry_get_nothing() -> None:
    """Whatever other runs do meanwhile: an answer for another registry is of no use to them."""
    providers, plugin, clock = one()
    works, fails = response(cache_key_type="Image", cache_seconds=3600), PluginExitError("plugin", 1)

    def run(image: str, answer: object, *, is_renewal: bool = False) -> str:
        clock.step(60)
        plugin.answer = answer  # type: ignore[assignment] # an answer, or an error
        if is_renewal:
            providers.providers[0].refresh(image)
        else:
            providers.lookup(image)
        return state(providers)

    assert run("reg.io/a", works) == "well"
    assert run("reg.io/b", fails) == "failing"
    assert run("reg.io/a", works, is_renewal=True) == "failing"
    assert run("reg.io/a", fails, is_renewal=True) == "failing"
    # An answer for the same image ends it, and so does one that is cached for its registry.
    assert run("reg.io/b", works) == "well"
    assert run("reg.io/c", fails) == "failing"
    assert run("reg.io/d", response(cache_key_type="Registry", cache_seconds=3600)) == "unstable"


def test_a_failure_that_nobody_meets_again_is_forgotten() -> None:
    """Ten minutes later, since a pod asks again within five; while no run has worked since, it stays."""
    providers, plugin, clock = one()
    plugin.answer = PluginExitError("plugin", 1)
    providers.lookup("reg.io/b")
    clock.step(3600)
    assert state(providers) == "failing"
    plugin.answer = response(cache_key_type="Image")
    providers.lookup("reg.io/a")
    assert state(providers) == "well"
    plugin.answer = PluginExitError("plugin", 1)
    providers.lookup("reg.io/b")
    plugin.answer = response(cache_key_type="Image")
    clock.step(1)
    providers.lookup("reg.io/c")
    clock.step(598)
    assert state(providers) == "failing"
    clock.step(2)
    assert state(providers) == "well"


def lookups(providers: Providers, name: str = "plugin") -> tuple[float, float, float]:
    samples = scraped(providers)
    hit, miss, shared = (
        samples[f'keyferry_provider_lookups_total{{plugin_name="{name}",result="{result}"}}']
        for result in ("hit", "miss", "shared")
    )
    return hit, miss, shared


def test_hits_and_misses_are_counted() -> None:
    """An answer from the cache is a hit, also after one has expired."""
    providers, _, clock = one()
    for _ in range(5):
        providers.lookup("reg.io/app")
    assert lookups(providers) == (4, 1, 0)
    clock.step(601)
    for _ in range(5):
        providers.lookup("reg.io/app")
    assert lookups(providers) == (8, 2, 0)


def test_a_skipped_provider_has_no_hits() -> None:
    """One that does not apply is not asked, however often the image is looked up."""
    clock = Clock()
    config = configured("skipped", token_attributes=attributes())
    skipped = provider(Scripted(response()), clock, config, Accounts({}))
    providers = Providers([skipped, provider(Scripted(response()), clock)], clock=clock)
    for _ in range(5):
        providers.lookup("reg.io/app")
    assert lookups(providers, "skipped") == (0, 0, 0)
    assert lookups(providers) == (4, 1, 0)
    providers.evict("reg.io/app", providers.lookup("reg.io/app").credentials[0])
    assert lookups(providers, "skipped") == (0, 0, 0)
    assert lookups(providers) == (5, 1, 0)


def test_a_missing_account_is_a_failure_by_its_reason() -> None:
    """It is counted without a run."""
    clock = Clock()
    asked = provider(Scripted(response()), clock, configured(token_attributes=attributes()), Accounts({}))
    providers = Providers([asked], clock=clock)
    providers.lookup(
        "reg.io/app", pod=keyferry.Pod(namespace="ns", name="pod", uid="uid", service_account_name="builder")
    )
    samples = scraped(providers)
    assert samples['keyferry_plugin_failures_total{cause="service-account",plugin_name="plugin"}'] == 1
    assert samples['keyferry_plugin_runs_total{plugin_name="plugin"}'] == 0


def test_the_time_of_expiry_is_there_while_something_is_cached() -> None:
    """On the wall clock, so that it stays the same while time passes; an empty cache has no such sample."""
    clock = Clock()
    asked = provider(Scripted(response(cache_seconds=600)), clock)
    providers = Providers([asked], clock=clock)
    name = 'keyferry_credential_expiry_timestamp_seconds{plugin_name="plugin"}'

    def expiry() -> float | None:
        return scraped(providers, lambda: clock() + 1_700_000_000 * SECOND).get(name)

    assert expiry() is None
    started = clock() // SECOND
    providers.lookup("reg.io/app")
    assert expiry() == 1_700_000_000 + started + 600
    clock.step(100)
    assert expiry() == 1_700_000_000 + started + 600
    clock.step(501)
    assert expiry() is None


def test_every_cause_is_there_before_it_happens() -> None:
    """Otherwise its first failure would be no increase."""
    providers, plugin, _ = one()
    before = {name for name in scraped(providers) if name.startswith("keyferry_plugin_failures_total")}
    plugin.answer = PluginExitError("plugin", 1)
    providers.lookup("reg.io/app")
    after = {name for name in scraped(providers) if name.startswith("keyferry_plugin_failures_total")}
    assert before == after
    assert len(before) == 8


def test_both_caches_are_shown_with_their_limits() -> None:
    """What everybody gets, and what was got with a token that somebody passed on."""
    clock = Clock()
    plugin = Scripted(response(cache_key_type="Image"))
    asked = Provider(configured(), plugin, clock=clock, cache_limits=CacheLimits(entries=2, bytes=1 << 20))
    providers = Providers([asked], clock=clock)
    for name in ("a", "b", "c"):
        providers.lookup(f"reg.io/{name}")
    samples = scraped(providers)
    found = {
        (name, cache): samples[f'keyferry_cache_{name}{{cache="{cache}",plugin_name="plugin"}}']
        for name in ("entries", "entries_limit", "size_limit_bytes")
        for cache in ("shared", "tenant")
    }
    assert found["entries", "shared"] == found["entries_limit", "shared"] == 2
    assert (found["entries", "tenant"], found["entries_limit", "tenant"]) == (0, 2)
    assert found["size_limit_bytes", "shared"] == found["size_limit_bytes", "tenant"] == 1 << 20
    assert samples['keyferry_cache_size_bytes{cache="shared",plugin_name="plugin"}'] > 2000


def test_runs_under_way_and_lookups_in_the_queue_are_counted() -> None:
    """One flight for each registry here; beyond the number of threads, lookups wait."""
    go, started = threading.Event(), threading.Semaphore(0)

    def slow(_: object) -> CredentialProviderResponse:
        started.release()
        assert go.wait(20)
        return response(cache_key_type="Image")

    asked = Provider(configured(match_images=("*.io",)), Scripted(slow))
    providers = Providers([asked])

    async def run() -> tuple[float, float]:
        tasks = [asyncio.create_task(providers.lookup_async(f"r{each}.io/app")) for each in range(70)]
        await asyncio.sleep(0)
        for _ in range(64):
            assert await asyncio.to_thread(started.acquire, timeout=20)
        samples = scraped(providers)
        go.set()
        await asyncio.gather(*tasks)
        return samples['keyferry_plugin_flights{plugin_name="plugin"}'], samples["keyferry_lookups_waiting"]

    assert asyncio.run(run()) == (64, 6)
    samples = scraped(providers)
    assert (
        samples['keyferry_plugin_flights{plugin_name="plugin"}'] == samples["keyferry_lookups_waiting"] == 0
    )


@pytest.mark.parametrize(
    ("name", "seconds", "cause", "errors"),
    [("exits", 60, "exit", 1), ("babbles", 60, "protocol", 0), ("hangs", 0.2, "timeout", 1)],
)
def test_real_plugins_are_measured(
    tmp_path: Path, name: str, seconds: float, cause: str, errors: int
) -> None:
    """One that exits 1, one that talks nonsense and one that hangs."""
    write_printer(tmp_path, "exits", status=1)
    write_printer(tmp_path, "babbles", b"nonsense")
    write_script(tmp_path, "hangs", "exec sleep 20")
    (tmp_path / "config.json").write_text(config_text({"name": name}))
    providers = load_providers(tmp_path / "config.json", tmp_path, timeout_seconds=seconds)
    providers.lookup("reg.io/app")
    samples = scraped(providers)
    assert samples[f'{ERRORS}{{plugin_name="{name}"}}'] == errors
    assert samples[f'{DURATION}_count{{plugin_name="{name}"}}'] == 1
    assert samples[f'{DURATION}_sum{{plugin_name="{name}"}}'] >= (seconds if cause == "timeout" else 0)
    assert samples[f'keyferry_plugin_failures_total{{cause="{cause}",plugin_name="{name}"}}'] == 1
    assert any(each.startswith('kubelet_credential_provider_config_info{hash="sha256:') for each in samples)


def test_every_metric_is_there(tmp_path: Path) -> None:
    """Files, memory, decisions and needs of images."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    records.record_intent("reg.example/other")
    for ref in (REF, REF, ""):
        records.decide(IMAGE, ref)
    records.counters.count_request("IfNotPresent", present_locally=True, pull_required=None)
    text = exposed(keyferry.pull_metrics_collector(records))
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
    text = exposed(keyferry.pull_metrics_collector(records))
    assert "\nkubelet_imagemanager_ondisk_pulledrecords " not in text
    assert "\nkubelet_imagemanager_inmemory_pullintents_usage_percent " not in text
