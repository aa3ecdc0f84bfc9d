"""Which sections there are, and what is said of a machine that is no node."""

from __future__ import annotations

from keyferry.doctor.facts import KubeletFacts, NodeFacts
from keyferry.doctor.hints import Hints
from keyferry.doctor.visit import examine
from keyferry.images.node.kubelet import Kubelet, Kubelets

KUBELET = Kubelet(pid=7, program="kubelet", process="/proc/7", users=frozenset({0}), flags={})


def test_sections_without_lines_are_left_out() -> None:
    found = examine(NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets(found=(KUBELET,)))), Hints())
    assert [section.title for section in found.sections] == ["kubelet", "provider config", "proxies"]


def test_those_who_do_not_see_all_are_told_to_look_as_root() -> None:
    facts = NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets(hidden="others cannot be seen")), is_root=False)
    found = examine(facts, Hints())
    assert not found.is_node
    looked, can_do = found.sections
    assert looked.lines[0].text.endswith("none is visible; others cannot be seen")
    assert can_do.lines[0].next_command == "sudo keyferry doctor"
    seen = examine(NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets())), Hints()).sections[1]
    assert "sudo" not in "".join(line.next_command for line in seen.lines)
