"""A line of a source text with its mark."""

from __future__ import annotations

import time

import pytest

from keyferry.show.text import source_frame


@pytest.mark.parametrize(
    ("line", "column", "length", "shown", "mark"),
    [
        pytest.param("  - reg.io/*", 5, 8, "  - reg.io/*", "    ^^^^^^^^", id="plain"),
        pytest.param("a: 名前 x", 7, 1, "a: 名前 x", "        ^", id="wide characters"),
        pytest.param("e\u0301: x", 5, 1, "e\u0301: x", "   ^", id="combining character"),
        pytest.param("\ta: b", 2, 1, "    a: b", "    ^", id="tab"),
        pytest.param("a", 9, 1, "a", " ^", id="beyond the end"),
        pytest.param("a\x1b[2Jb", 1, 1, "a\ufffd[2Jb", "^", id="control character"),
        pytest.param("", 1, 1, "", "^", id="empty line"),
    ],
)
def test_the_mark_stands_below_the_place(line: str, column: int, length: int, shown: str, mark: str) -> None:
    assert source_frame(line, 7, column, length, 80) == ("  |", f"7 | {shown}".rstrip(), f"  | {mark}")


@pytest.mark.parametrize("column", [1, 40, 150, 295])
@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_a_long_line_is_cut_around_the_place(column: int, width: int) -> None:
    line = "".join(chr(ord("a") + at % 26) for at in range(300))
    _, shown, mark = source_frame(line, 12, column, 4, width)
    assert len(shown) <= max(width, 25)
    at = mark.index("^")
    assert shown[at : at + 4] == line[column - 1 : column + 3]
    assert "..." in shown


def test_a_long_token_is_cut_too() -> None:
    _, shown, mark = source_frame("- " + "x" * 300, 1, 3, 300, 60)
    assert len(shown) <= 60
    assert shown.endswith("...")
    assert len(mark) <= 60


def test_a_line_of_megabytes_is_cut_at_once() -> None:
    begin = time.process_time()
    frames = []
    for count in (20, 500_000):
        side = "名e\u0301" * count
        frames.append(source_frame(f"{side}here{side}", 1, len(side) + 1, 4, 60))
    assert time.process_time() - begin < 10
    assert frames[0] == frames[1]
