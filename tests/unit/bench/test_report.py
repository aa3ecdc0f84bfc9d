"""Tables for people and for the docs: every row with its spread, and what is missing by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.measure import Figure, Row, skipped
from bench.report import BEGIN, END, Machine, Report, describe_build, describe_machine, replace_generated

PAGE = Path(__file__).parents[3] / "docs" / "speed.md"
MACHINE = Machine(
    "2026-01-02", "a processor", 2, "a virtual machine", "Linux 6.1", "3.11.2", "built", "0.1", "1.9"
)
ROWS = [
    Row(
        "cold",
        Figure(120.0, (120.0, 130.0)),
        "µs",
        Figure(100.0, (100.0, 100.0)),
        "C floor",
        1.15,
        "2 rounds",
    ),
    Row("  a part | of it", 2.0, "ms"),
    skipped("  other", "not installed"),
]
REPORT = Report(
    MACHINE, {"skopeo": "1.9.3", "kubectl": "not there"}, {"cold": "Cold lookups"}, {"cold": ROWS}
)


def test_the_docs_get_a_table_for_each_group_with_spread_bar_and_verdict() -> None:
    lines = REPORT.to_markdown().splitlines()
    assert "### Cold lookups" in lines
    assert (
        "| cold (2 rounds) | 120 µs | 120 to 130 | C floor: 100 µs | 1.20 | 1.20 to 1.30 | 1.15 x | **no** |"
        in lines
    )
    assert "| - a part \\| of it | 2 ms |  |  |  |  |  |  |" in lines


def test_the_docs_name_the_machine_its_load_and_the_peers() -> None:
    machine, _, peers = REPORT.to_markdown().splitlines()[:3]
    assert machine == (
        "2026-01-02: a processor, 2 cores, a virtual machine, Linux 6.1; Python 3.11.2, built; "
        "load 0.1 at the start and 1.9 at the end."
    )
    assert peers == "Beside it: skopeo 1.9.3, kubectl not there."


@pytest.mark.parametrize("shown", [REPORT.to_markdown(), REPORT.to_text()], ids=["docs", "terminal"])
def test_what_could_not_be_measured_is_named_with_the_reason(shown: str) -> None:
    assert "other: not installed" in shown


def test_a_terminal_gets_one_table_without_marks_of_emphasis() -> None:
    text = REPORT.to_text()
    assert text.startswith(MACHINE.sentence())
    assert text.count("floor or peer") == 1
    assert "**" not in text


def test_programs_get_every_row_and_the_machine() -> None:
    document = json.loads(json.dumps(REPORT.to_document()))
    assert [row["what"] for row in document["rows"]] == [row.what for row in ROWS]
    assert document["machine"]["load_after"] == "1.9"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "built in a way it does not tell"),
        ("'--enable-shared'", "built without optimisation by profile"),
        ("'--enable-shared' '--with-wheel-pkg-dir=/usr/share/python-wheels/'", "Debian's build"),
        ("'--enable-optimizations'", "built with optimisation by profile"),
        ("'--with-lto' '--enable-optimizations'", "built with optimisation by profile and at link time"),
    ],
)
def test_an_interpreters_build_is_said(arguments: str, said: str) -> None:
    assert describe_build(arguments) == said


def test_this_machine_can_be_described() -> None:
    machine = describe_machine()
    assert machine.cores > 0
    assert machine.cpu
    assert "load" in machine.sentence()


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_generated(page, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_generated(once, "new") == once


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="marks"):
        replace_generated(page, "new")


def test_the_page_of_the_docs_has_its_marks() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "new" in replace_generated(page, "new")
