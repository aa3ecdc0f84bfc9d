"""Lines about proxies, for the registries that patterns name."""

from __future__ import annotations

import pytest

from keyferry.doctor.facts import ConfigFacts, KubeletFacts, NodeFacts, ProviderFacts
from keyferry.doctor.health import HealthLevel, HealthLine, Hints
from keyferry.doctor.network_checks import check_proxies
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import Kubelet, Kubelets
from keyferry.lint.report import LintReport

KUBELETS = Kubelets(
    found=(Kubelet(pid=7, program="kubelet", process="/proc/7", users=frozenset({0}), flags={}),)
)


def lines(environ: dict[str, str] | None, *registries: str, pattern: str = "reg.io") -> list[HealthLine]:
    config = ConfigFacts(
        found=Discovery(config="/c"),
        report=LintReport(path="/c", kubernetes="1.37"),
        providers=(ProviderFacts(name="p", patterns=(pattern,), place=("/c", "providers[0]")),),
    )
    facts = NodeFacts(
        kubelet=KubeletFacts(kubelets=KUBELETS, settings=None, environment=environ),
        config=config,
        registries=registries,
        is_root=False,
    )
    return list(check_proxies(facts, Hints()))


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, "no proxy for HTTPS"),
        ({"HTTP_PROXY": "http://p"}, "no proxy for HTTPS"),
        ({"HTTPS_PROXY": "u:secret@p:1"}, "proxy p:1 for a.io, docker.io"),
        (
            {"https_proxy": "http://p", "NO_PROXY": "registry-1.docker.io"},
            "proxy p for a.io, none for docker.io",
        ),
        ({"HTTPS_PROXY": "socks5://p:1080"}, "proxy p:1080 for a.io, docker.io"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "no proxy for HTTPS"),
    ],
)
def test_it_is_told_which_registries_use_the_proxy(environ: dict[str, str], text: str) -> None:
    (line,) = lines(environ, "a.io", "docker.io")
    assert (line.level, line.text) == (HealthLevel.OK, text)


def test_an_environment_that_cannot_be_read_is_unknown() -> None:
    (line,) = lines(None)
    assert (line.level, line.next_command) == (HealthLevel.UNKNOWN, "sudo keyferry doctor")


@pytest.mark.parametrize(
    ("pattern", "exceptions", "service"),
    [
        ("*.dkr.ecr.*.amazonaws.com", "", "169.254.169.254"),
        ("*.dkr.ecr.*.amazonaws.com", "169.254.0.0/16", ""),
        ("gcr.io/project", "", "metadata.google.internal"),
        ("*.azurecr.io", ".internal", "169.254.169.254"),
        ("reg.io", "", ""),
    ],
)
def test_a_metadata_service_behind_a_proxy_is_a_warning(pattern: str, exceptions: str, service: str) -> None:
    found = lines({"HTTP_PROXY": "http://p", "NO_PROXY": exceptions}, pattern=pattern)[1:]
    assert [line.text.endswith(f"add {service} to the kubelet's NO_PROXY") for line in found] == [
        True
    ] * bool(service)
