"""Lines about registries as they answered, and about the clock."""

from __future__ import annotations

from keyferry.doctor.facts import KubeletFacts, NodeFacts, ProbeRoute, RegistryProbe
from keyferry.doctor.health import HealthLevel, Hints
from keyferry.doctor.network_checks import check_clock, check_registries
from keyferry.images.node.kubelet import Kubelets


def test_answers_are_judged_and_the_others_counted() -> None:
    probes = (
        RegistryProbe(registry="a.io", status=200),
        RegistryProbe(registry="b.io", problem="cannot be reached"),
        RegistryProbe(registry="c.io", status=503),
    )
    facts = NodeFacts(
        kubelet=KubeletFacts(kubelets=Kubelets()),
        registries=("a.io", "b.io", "c.io", "d.io"),
        probes=probes,
        is_online=True,
    )
    levels = [line.level for line in check_registries(facts, Hints())]
    assert levels == [HealthLevel.OK, HealthLevel.PROBLEM, HealthLevel.WARNING, HealthLevel.UNKNOWN]


def test_offline_nothing_is_said() -> None:
    assert list(check_registries(NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets())), Hints())) == []
    assert list(check_clock(())) == []


def test_the_registry_that_agrees_most_counts() -> None:
    """One registry with a wrong clock does not make this machine wrong."""
    wrong = RegistryProbe(registry="a.io", status=200, skew_seconds=4000.0)
    right = RegistryProbe(registry="b.io", status=200, skew_seconds=-2.0)
    (line,) = check_clock((wrong, right, RegistryProbe(registry="c.io", status=200)))
    assert (line.level, line.text) == (HealthLevel.OK, "within 60 s of b.io")
    (line,) = check_clock((wrong,))
    assert line.level is HealthLevel.PROBLEM
    assert "is 4000 s behind that of a.io" in line.text


def test_a_request_without_a_proxy_is_repeated_without_one() -> None:
    """The shell of the reader may have a proxy that the kubelet does not have."""
    probe = RegistryProbe(registry="a.io", problem="cannot be reached", route=ProbeRoute(owner="the kubelet"))
    facts = NodeFacts(
        kubelet=KubeletFacts(kubelets=Kubelets()), registries=("a.io",), probes=(probe,), is_online=True
    )
    (line,) = check_registries(facts, Hints())
    assert line.text == "cannot be reached (without a proxy, by the environment of the kubelet)"
    assert line.next_command == "curl -v --noproxy '*' https://a.io/v2/"
