"""Metrics of exec plugins have client-go's names, labels and buckets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry, generate_latest

import keyferry
from keyferry import KeyferryError, PluginPolicy
from keyferry.api.clientauthentication.v1 import API_VERSION
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.call_metrics import CALLS, CallMetrics
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.runner import ExecRunner
from support.certificates import key_pem, make_key
from support.plugins import SteppedClock, write_executable

SECOND = 1_000_000_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * SECOND
TTL = "rest_client_exec_plugin_ttl_seconds"
AGE = "rest_client_exec_plugin_certificate_rotation_age"
KEY = make_key()


def certificate(begin: datetime = BEGIN, days: int = 1, name: str = "user") -> ClusterCredential:
    """A credential whose certificate is valid from *begin* on."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = datetime.fromtimestamp(begin.timestamp() + days * 86400, UTC)
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, begin, end)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    return ClusterCredential(token="", certificate_pem=pem, key_pem=key_pem(KEY))


def authenticator(
    *answers: ClusterCredential, calls: CallMetrics | None = None, clock: SteppedClock | None = None
) -> Authenticator:
    left = list(answers)
    return Authenticator(
        lambda: left.pop(0), recorder=calls or CallMetrics(), clock=clock or SteppedClock(BEGIN_NS)
    )


def exposed(
    calls: CallMetrics, authenticators: Iterable[Authenticator] = (), clock: SteppedClock | None = None
) -> str:
    registry = CollectorRegistry()
    registry.register(
        keyferry.cluster_metrics_collector(
            calls, authenticators=lambda: authenticators, clock=clock or SteppedClock(BEGIN_NS)
        )
    )
    return generate_latest(registry).decode()


def samples(
    calls: CallMetrics, authenticators: Iterable[Authenticator] = (), clock: SteppedClock | None = None
) -> dict[str, float]:
    lines = [line for line in exposed(calls, authenticators, clock).splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_names_and_types_are_exact() -> None:
    types = dict(re.findall(r"# TYPE (\S+) (\S+)", exposed(CallMetrics())))
    assert types == {
        TTL: "gauge",
        AGE: "histogram",
        "rest_client_exec_plugin_call_total": "counter",
        "rest_client_exec_plugin_policy_call_total": "counter",
    }


# The gauge


def test_without_a_certificate_there_is_all_the_time_in_the_world() -> None:
    assert samples(CallMetrics())[TTL] == float("inf")
    token = authenticator(ClusterCredential(token="t", expires_ns=BEGIN_NS + SECOND))
    token.credential()
    assert samples(CallMetrics(), [token, authenticator()])[TTL] == float("inf")


def test_the_earliest_end_of_all_certificates_counts_and_goes_below_zero() -> None:
    clock = SteppedClock(BEGIN_NS)
    late, early = authenticator(certificate(days=3)), authenticator(certificate(days=1))
    for each in (late, early):
        each.credential()
    assert samples(CallMetrics(), [late, early], clock)[TTL] == 86400
    clock.step(86400 + 5)
    assert samples(CallMetrics(), [late, early], clock)[TTL] == -5
    assert samples(CallMetrics(), [late], clock)[TTL] == 2 * 86400 - 5


def test_a_certificate_that_cannot_be_read_does_not_break_the_page() -> None:
    odd = authenticator(ClusterCredential(token="", certificate_pem="no certificate", key_pem="no key"))
    odd.credential()
    assert samples(CallMetrics(), [odd])[TTL] == float("inf")


# The histogram


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        (0, "600"), (600, "600"), (600.001, "1800"), (604800, "604800"), (124416000, "1.24416e+08"),
        (124416001, "+Inf"),
    ],
)  # fmt: skip
def test_the_age_of_a_replaced_certificate_falls_into_client_gos_buckets(seconds: float, bucket: str) -> None:
    """Observed when another takes its place, counted from when it became valid."""
    calls, clock = CallMetrics(), SteppedClock(BEGIN_NS)
    each = authenticator(certificate(), certificate(name="next"), calls=calls, clock=clock)
    first = each.credential()
    clock.step(seconds)
    each.renew(first)
    found = samples(calls)
    bounds = [name for name in found if name.startswith(f"{AGE}_bucket")]
    at = bounds.index(f'{AGE}_bucket{{le="{bucket}"}}')
    assert [found[name] for name in bounds] == [0] * at + [1] * (len(bounds) - at)
    assert found[f"{AGE}_count"] == 1
    assert found[f"{AGE}_sum"] == pytest.approx(seconds)


def test_the_buckets_are_client_gos() -> None:
    bounds = re.findall(rf'{AGE}_bucket{{le="([^"]+)"}}', exposed(CallMetrics()))
    # fmt: off
    assert [float(bound) for bound in bounds] == [
        600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000, float("inf"),
    ]
    # fmt: on


def test_only_a_replaced_certificate_has_an_age() -> None:
    """Neither the first one, nor the same again, nor one that follows a token; one that ends does."""
    calls, clock = CallMetrics(), SteppedClock(BEGIN_NS)
    one = certificate()
    answers = (
        ClusterCredential(token="t"),
        one,
        one,
        ClusterCredential(token="t"),
        ClusterCredential(token="u"),
    )
    each = authenticator(*answers, calls=calls, clock=clock)
    counted, last = [], None
    for _ in answers:
        last = each.renew(last) if last else each.credential()
        counted.append(sum(calls.rotations.buckets))
    assert counted == [0, 0, 0, 1, 1]


# The counters


def test_calls_are_counted_by_code_and_status(tmp_path: Path) -> None:
    calls = CallMetrics()

    def run(command: str, policy: str = "") -> None:
        config = ExecConfig(command=command, api_version=API_VERSION, interactive_mode="Never")
        try:
            ExecRunner(config, policy=PluginPolicy(policy_type=policy), recorder=calls).credential()
        except KeyferryError:
            pass

    for name, body in (("good", ""), ("bad", "exit 3"), ("killed", "kill -9 $$")):
        write_executable(tmp_path / name, f"#!/bin/sh\n{body}\n")
        run(str(tmp_path / name))
    run(str(tmp_path / "good"))
    run(str(tmp_path / "missing"))
    run(str(tmp_path / "good"), "DenyAll")
    name = "rest_client_exec_plugin_call_total"
    counters = {key: value for key, value in samples(calls).items() if "_total" in key}
    assert counters == {
        name + '{call_status="no_error",code="0"}': 2,
        name + '{call_status="plugin_execution_error",code="3"}': 1,
        name + '{call_status="plugin_execution_error",code="-1"}': 1,
        name + '{call_status="plugin_not_found_error",code="1"}': 1,
        'rest_client_exec_plugin_policy_call_total{decision="allowed"}': 5,
        'rest_client_exec_plugin_policy_call_total{decision="denied"}': 1,
    }


def test_without_arguments_it_is_the_whole_process() -> None:
    registry = CollectorRegistry()
    registry.register(keyferry.cluster_metrics_collector())
    holder = Authenticator(lambda: certificate(begin=datetime.now(UTC), days=1))
    before = sum(CALLS.calls.values())
    holder.credential()
    text = generate_latest(registry).decode()
    assert float(re.findall(rf"^{TTL} (\S+)", text, re.MULTILINE)[0]) <= 86400
    CALLS.called(0, "no_error")
    text = generate_latest(registry).decode()
    counts = re.findall(r"^rest_client_exec_plugin_call_total\S* (\S+)", text, re.MULTILINE)
    assert sum(map(float, counts)) == before + 1
