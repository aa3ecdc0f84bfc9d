"""The one reporter of notes and errors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import keyferry
from keyferry.errors import ConfigError, EnvironmentProblem, Problem
from keyferry.show import writer
from keyferry.show.writer import report, report_error

SOURCE = Path(keyferry.__file__).parent


def test_each_note_is_a_line_with_our_name(capsys: pytest.CaptureFixture[str]) -> None:
    report("one", EnvironmentProblem("two\nkeyferry: planted"), "three \x1b[31m")
    report()
    shown = capsys.readouterr()
    assert shown.err == "keyferry: one\nkeyferry: two\ufffdkeyferry: planted\nkeyferry: three \ufffd[31m\n"
    assert shown.out == ""


def test_an_error_is_one_line_and_a_config_one_for_each_problem(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(EnvironmentProblem("a\nkeyferry: planted"))
    report_error(ConfigError((Problem("x\ny", "one"), Problem("z", "two\r"))))
    report_error(ValueError())
    assert capsys.readouterr().err.split("\n") == [
        "keyferry: a\ufffdkeyferry: planted",
        "keyferry: x\ufffdy: one",
        "keyferry: z: two\ufffd",
        "keyferry: ValueError",
        "",
    ]


def test_nobody_else_speaks_in_our_name() -> None:
    """A second reporter could forget to make foreign text harmless."""
    found = {
        path
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and str(node.value).startswith("keyferry: ")
    }
    assert found == {Path(writer.__file__)}
