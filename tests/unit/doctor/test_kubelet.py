"""Lines about kubelets."""

from __future__ import annotations

import pytest

from keyferry._core.values import replace
from keyferry.doctor.facts import KubeletFacts
from keyferry.doctor.health import HealthLevel, HealthLine, Hints
from keyferry.doctor.node_checks import check_kubelet
from keyferry.images.node.kubelet import Kubelet, Kubelets
from keyferry.images.node.settings import RECORDS_GATE, KubeletSettings, Setting

KUBELET = Kubelet(
    pid=7,
    program="kubelet",
    process="/proc/7",
    users=frozenset({0}),
    flags={"--root-dir": "/r", "--config": "/c"},
)
SETTINGS = KubeletSettings(
    kubelet=KUBELET,
    root_dir=Setting(value="/r", origin="flags"),
    notes=("/c of the kubelet: cannot be read",),
)


def lines(facts: KubeletFacts, *, is_root: bool = True) -> list[HealthLine]:
    return list(check_kubelet(facts, Hints(), is_root=is_root))


def test_no_kubelet_is_a_warning_and_a_hidden_one_unknown() -> None:
    (none,) = lines(KubeletFacts(kubelets=Kubelets()))
    assert (none.level, none.text) == (HealthLevel.WARNING, "no kubelet is running")
    for is_root, command in ((True, ""), (False, "sudo keyferry doctor")):
        (hidden,) = lines(KubeletFacts(kubelets=Kubelets(hidden="they are hidden")), is_root=is_root)
        assert (hidden.level, hidden.next_command) == (HealthLevel.UNKNOWN, command)


def test_the_flags_are_shown_and_other_kubelets_named() -> None:
    other = Kubelet(pid=8, program="k3s", process="/proc/8", users=frozenset({0}), flags={})
    runs, more, flags = lines(KubeletFacts(kubelets=Kubelets(found=(KUBELET, other))))
    assert runs.text == "process 7 (kubelet) runs"
    assert (more.level, "processes 8;" in more.text) == (HealthLevel.WARNING, True)
    assert flags.text == "--config=/c --root-dir=/r"
    assert lines(KubeletFacts(kubelets=Kubelets(found=(other,))))[1].text.startswith("none of those")


def test_a_file_that_cannot_be_read_is_a_problem_for_root_alone() -> None:
    facts = KubeletFacts(kubelets=Kubelets(found=(KUBELET,)), settings=SETTINGS)
    assert lines(facts)[-1].level is HealthLevel.PROBLEM
    last = lines(facts, is_root=False)[-1]
    assert (last.level, last.next_command) == (HealthLevel.UNKNOWN, "sudo keyferry doctor")


@pytest.mark.parametrize(
    ("pulls", "version", "gates", "levels"),
    [
        (32, "1.36", {}, [HealthLevel.PROBLEM]),
        (31, "1.36", {}, []),
        (None, "1.36", {}, []),
        (32, "1.37", {}, []),
        (32, "1.34", {}, []),
        (32, "1.34", {RECORDS_GATE: True}, [HealthLevel.PROBLEM]),
        (32, "1.35", {RECORDS_GATE: False}, []),
        (32, "", {}, [HealthLevel.WARNING]),
        (32, "", {RECORDS_GATE: False}, []),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    pulls: int | None, version: str, gates: dict[str, bool], levels: list[HealthLevel]
) -> None:
    """It panics if it keeps pull records and is of a version with the bug; a version that is not known may be one."""
    settings = replace(SETTINGS, notes=(), gates=gates, parallel_pulls=pulls)
    found = lines(KubeletFacts(kubelets=Kubelets(found=(KUBELET,)), settings=settings, version=version))
    about = [line for line in found if line.subject == "maxParallelImagePulls"]
    assert [line.level for line in about] == levels
    assert all("set 31 or less, or upgrade the kubelet" in line.text for line in about)
