"""What a target of the Makefile writes into a page takes the place of what it wrote before, and of nothing else."""

from __future__ import annotations

import pytest
from bench.sections import marks, section, table, with_section

BEGIN, END = marks("soak")
OTHER = "\n".join(marks("bench"))


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{OTHER}\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_section(page, "soak", "new\n")
    assert written == f"before\n{OTHER}\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert section(written, "soak") == "\n\nnew\n\n"


@pytest.mark.parametrize(
    "page",
    ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", 2 * f"{BEGIN}\n{END}\n"],
    ids=["no marks", "no end", "end before begin", "twice"],
)
def test_a_page_without_its_marks_stays_as_it_is(page: str) -> None:
    with pytest.raises(ValueError, match="the marks of what 'make soak' writes"):
        with_section(page, "soak", "new")


def test_a_table_has_a_rule_below_its_header() -> None:
    assert table([("a", "b"), ("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
