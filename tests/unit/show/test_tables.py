"""Tables, and what takes their place on a terminal that is too narrow."""

from __future__ import annotations

import io
import sys

import pytest

from keyferry.show.text import fitting_table, table

HEADER = ("IMAGE", "RESULT", "WHY")
ROWS = [("reg.io/app:v1", "pulled", "it was not present on this node"), ("b\x1b", "failed", "see below")]


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Always."""
        return True


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(HEADER, ROWS).split("\n") == [
        "IMAGE           RESULT   WHY",
        "reg.io/app:v1   pulled   it was not present on this node",
        "b\ufffd              failed   see below",
    ]


def test_a_narrow_terminal_gets_a_paragraph_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "56")
    assert fitting_table(HEADER, ROWS) == table(HEADER, ROWS)
    monkeypatch.setenv("COLUMNS", "38")
    assert fitting_table(HEADER, ROWS).split("\n") == [
        "reg.io/app:v1",
        "  RESULT  pulled",
        "  WHY     it was not present on this",
        "          node",
        "",
        "b\ufffd",
        "  RESULT  failed",
        "  WHY     see below",
    ]


def test_programs_get_the_table_however_wide_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "20")
    assert fitting_table(HEADER, ROWS) == table(HEADER, ROWS)


def test_a_mark_in_front_stands_before_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    rows = [("*", "prod", "https://prod.example:6443/"), ("", "test", "https://test.example:6443/")]
    assert fitting_table(("CURRENT", "NAME", "SERVER"), rows).split("\n") == [
        "* prod",
        "  SERVER  https://prod.example:6443/",
        "",
        "test",
        "  SERVER  https://test.example:6443/",
    ]
