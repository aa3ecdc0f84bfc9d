"""The text for a terminal."""

from __future__ import annotations

from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, NodeHealth
from keyferry.doctor.text import render_health


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
