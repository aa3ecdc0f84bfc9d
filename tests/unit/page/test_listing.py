"""Pages of lists, and search in rows."""

from __future__ import annotations

import pytest

from keyferry.page.views import ListPage, find_page, searched


@pytest.mark.parametrize(
    ("total", "page", "expected"),
    [
        (0, "", ListPage(total=0, page=1, pages=1, start=0, last=0)),
        (7, "", ListPage(total=7, page=1, pages=1, start=0, last=7)),
        (101, "1", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "3", ListPage(total=101, page=3, pages=3, start=100, last=101)),
        (101, "4", ListPage(total=101, page=3, pages=3, start=100, last=101)),
        (101, "0", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "-1", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "two", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "٣", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "9" * 5000, ListPage(total=101, page=1, pages=3, start=0, last=50)),
    ],
)
def test_a_page_is_the_nearest_to_the_one_asked_for(total: int, page: str, expected: ListPage) -> None:
    assert find_page(total, page, 50) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [("", ["ab", "AC", "b"]), ("a", ["ab", "AC"]), ("B a", ["ab"]), ("x", []), ("  c ", ["AC"])],
)
def test_every_word_has_to_be_there_in_any_case(text: str, found: list[str]) -> None:
    assert searched(["ab", "AC", "b"], text, lambda row: (row,)) == found
