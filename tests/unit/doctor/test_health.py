"""The verdict over all lines."""

from __future__ import annotations

import pytest

from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, NodeHealth


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
