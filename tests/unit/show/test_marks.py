"""Marks, in the encoding of the output."""

from __future__ import annotations

import io
import sys

import pytest

from keyferry.show.text import Mark, mark


def marks(encoding: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    return "".join(map(mark, Mark))


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "✓✗?!i-→"), ("ascii", "+x?!i->"), ("iso-8859-1", "+x?!i->"), ("cp437", "+x?!i->")],
)
def test_marks_are_those_that_the_output_can_encode(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert marks(encoding, monkeypatch) == shown


def test_marks_have_colours_if_the_output_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert mark(Mark.UNKNOWN) == "\033[33;1m?\033[0m"
