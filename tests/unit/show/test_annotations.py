"""Workflow commands of GitHub Actions."""

from __future__ import annotations

import pytest

from keyferry._core.severity import Severity
from keyferry.show.reports import annotation


@pytest.mark.parametrize(
    ("severity", "command"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "notice")],
)
def test_each_severity_has_its_command(severity: Severity, command: str) -> None:
    assert annotation(severity, "KF1", "m") == f"::{command} title=KF1::m"


def test_nothing_of_a_text_ends_a_property_or_the_command() -> None:
    shown = annotation(Severity.ERROR, "a:b,c", "100%\r\n::error::x", file="d,e:f%.yaml", line=3, column=4)
    assert shown == ("::error file=d%2Ce%3Af%25.yaml,line=3,col=4,title=a%3Ab%2Cc::100%25%0D%0A::error::x")
    assert "\033" not in annotation(Severity.INFO, "t", "a\033[2J")
