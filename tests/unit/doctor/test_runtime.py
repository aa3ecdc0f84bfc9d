"""Lines about the container runtime and its mirrors."""

from __future__ import annotations

import pytest

from keyferry.doctor.facts import KubeletFacts, MirrorFacts, NodeFacts, RuntimeFacts
from keyferry.doctor.health import HealthLevel, Hints
from keyferry.doctor.node_checks import check_mirrors, check_runtime
from keyferry.images.node.kubelet import Kubelets
from keyferry.pulls.cri import RuntimeInfo
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors, RuntimeKind

CRIO = RuntimeKind.CRIO


@pytest.mark.parametrize(
    ("facts", "level", "command"),
    [
        (RuntimeFacts(socket="/s", named_by="here", is_socket=True, kind=CRIO), HealthLevel.OK, ""),
        (RuntimeFacts(socket="/s", named_by="here", is_socket=False, kind=None), HealthLevel.PROBLEM, ""),
        (
            RuntimeFacts(socket="/s", named_by="here", is_socket=None, kind=CRIO),
            HealthLevel.PROBLEM,
            "systemctl status crio",
        ),
        (RuntimeFacts(), HealthLevel.UNKNOWN, ""),
    ],
)
def test_the_socket_is_there_or_not(facts: RuntimeFacts, level: HealthLevel, command: str) -> None:
    first = next(check_runtime(facts, Hints(), is_online=False))
    assert (first.level, first.next_command) == (level, command)


def test_the_version_is_told_online() -> None:
    known = RuntimeFacts(
        socket="/s",
        named_by="here",
        is_socket=True,
        kind=CRIO,
        version=RuntimeInfo(name="cri-o", version="1.31", api_version="v1"),
    )
    assert [each.text for each in check_runtime(known, Hints(), is_online=True)][1] == "cri-o 1.31, CRI v1"
    silent = RuntimeFacts(
        socket="/s", named_by="here", is_socket=True, kind=CRIO, version_problem="it does not answer"
    )
    assert [each.level for each in check_runtime(silent, Hints(), is_online=True)][1] is HealthLevel.UNKNOWN
    assert list(check_runtime(None, Hints(), is_online=True)) == []


def node_with(*mirrors: MirrorFacts, stale: tuple[tuple[str, str], ...] = ()) -> NodeFacts:
    return NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets()), mirrors=mirrors, stale_sources=stale)


def test_a_login_of_the_runtimes_own_is_well() -> None:
    own = Endpoint(
        url="https://reg.io", host="reg.io", api="https://reg.io/v2", is_registry=True, has_login=True
    )
    (line,) = check_mirrors(
        node_with(MirrorFacts(name="reg.io", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(own,)))),
        Hints(),
    )
    assert (line.level, "a login of its own" in line.text) == (HealthLevel.OK, True)


def test_a_file_of_k3s_that_was_changed_since_its_start_is_a_warning() -> None:
    (line,) = check_mirrors(node_with(stale=(("/a.yaml", "/certs.d"),)), Hints())
    assert (line.level, line.text.startswith("/a.yaml is newer than /certs.d")) == (HealthLevel.WARNING, True)


def test_mirrors_of_cri_o_get_no_credential_and_blocked_names_are_warned_of() -> None:
    mirror = Endpoint(url="https://m", host="m", api="https://m/v2", offer=CredentialOffer.WITHHELD)
    facts = (
        MirrorFacts(name="reg.io", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(mirror,))),
        MirrorFacts(name="bad.io", mirrors=Mirrors(runtime=CRIO, file="/f", is_blocked=True)),
        MirrorFacts(
            name="every other registry", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(mirror,))
        ),
    )
    own, blocked, others = check_mirrors(node_with(*facts), Hints())
    assert (own.level, own.text.endswith("CRI-O does not send them to another host")) == (
        HealthLevel.OK,
        True,
    )
    assert (blocked.level, blocked.text) == (HealthLevel.WARNING, "/f blocks it: CRI-O pulls none of it")
    assert others.next_command == ""


def test_a_file_that_cannot_be_used_is_named_once() -> None:
    broken = Mirrors(runtime=CRIO, file="/f", problem="it is not TOML")
    (line,) = check_mirrors(
        node_with(MirrorFacts(name="a.io", mirrors=broken), MirrorFacts(name="b.io", mirrors=broken)), Hints()
    )
    assert (line.level, line.text) == (HealthLevel.PROBLEM, "/f: it is not TOML")
