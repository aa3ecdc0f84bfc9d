"""The verdict over all lines."""

from __future__ import annotations

import pytest

from keyferry.doctor.examine import examine
from keyferry.doctor.facts import KubeletFacts, NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, Hints, NodeHealth, render_health
from keyferry.images.node.kubelet import Kubelet, Kubelets


def health(*levels: HealthLevel, is_node: bool = True) -> NodeHealth:
    lines = tuple(HealthLine(level=level, subject="s", text="t") for level in levels)
    return NodeHealth(
        sections=(HealthSection(title="one", lines=lines[:1]), HealthSection(title="two", lines=lines[1:])),
        is_node=is_node,
    )


OK, WARNING, PROBLEM, UNKNOWN, NEXT = HealthLevel


@pytest.mark.parametrize(
    ("levels", "verdict", "has_findings"),
    [
        ((OK, OK), "all is well", False),
        ((OK, NEXT), "all is well", False),
        ((PROBLEM, WARNING, PROBLEM), "2 problems, 1 warning", True),
        ((WARNING,), "1 warning", True),
        ((OK, UNKNOWN), "all that can be seen is well, 1 thing could not be checked", False),
        ((PROBLEM, UNKNOWN, UNKNOWN), "1 problem, 2 things could not be checked", True),
    ],
)
def test_the_verdict_counts(levels: tuple[HealthLevel, ...], verdict: str, has_findings: bool) -> None:
    found = health(*levels)
    assert (found.verdict, found.has_findings) == (verdict, has_findings)


def test_of_a_machine_that_is_no_node_nothing_is_told() -> None:
    assert health(UNKNOWN, is_node=False).verdict.startswith("cannot tell: ")


def test_foreign_text_cannot_harm_a_terminal() -> None:
    """File contents, names of processes and texts of servers come from elsewhere."""
    evil = "a\x1b[2Jb\u202ec\nd"
    line = HealthLine(level=HealthLevel.PROBLEM, subject=evil, text=evil, next_command=evil)
    text = render_health(NodeHealth(sections=(HealthSection(title="one", lines=(line,)),)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 5


def test_each_level_has_its_mark_and_findings_their_name() -> None:
    lines = tuple(HealthLine(level=level, subject="s", text="t") for level in HealthLevel)
    text = render_health(NodeHealth(sections=(HealthSection(title="one", lines=lines),)))
    shown = ["ONE", "  ✓ s: t", "  ! warning: s: t", "  ✗ problem: s: t", "  ? s: t", "  → s: t"]
    assert text.splitlines()[2:] == shown


HINTS = Hints(shared=("--config", "my file"), others=("--root", "/r"))


def test_options_are_repeated_and_quoted() -> None:
    assert HINTS.doctor("--online") == "keyferry doctor --config 'my file' --root /r --online"
    assert HINTS.doctor(is_root=True) == "sudo keyferry doctor --config 'my file' --root /r"
    assert HINTS.about_image("explain", "reg.io/a") == "keyferry explain reg.io/a --config 'my file'"
    assert HINTS.lint("/c", "/b") == "keyferry lint /c --bin-dir /b"
    assert HINTS.lint("/c") == "keyferry lint /c"


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
