"""Instants, numbers and addresses on the page."""

from __future__ import annotations

import math

import pytest

from keyferry.page.wording import (
    clock_text,
    counted,
    instant_iso,
    instant_text,
    link_to,
    local_path,
)


@pytest.mark.parametrize(
    ("seconds", "text", "iso"),
    [
        (0.0, "1970-01-01 00:00:00 UTC", "1970-01-01T00:00:00Z"),
        (1_790_000_000.9, "2026-09-21 14:13:20 UTC", "2026-09-21T14:13:20Z"),
        (1e15, "no end", ""),
        (math.inf, "no end", ""),
        (-1.0, "no end", ""),
    ],
)
def test_an_instant_is_written_in_utc(seconds: float, text: str, iso: str) -> None:
    assert instant_text(seconds) == text
    assert instant_iso(seconds) == iso


def test_an_axis_has_times_and_days() -> None:
    assert clock_text(1_790_000_000) == "14:13"
    assert clock_text(1_790_000_000, is_day=True) == "Sep 21"
    assert not clock_text(math.inf)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 answers"), (1, "1 answer"), (2, "2 answers"), (10_000, "10,000 answers")]
)
def test_a_number_has_its_noun(number: int, text: str) -> None:
    assert counted(number, "answer") == text


def test_a_plural_can_be_given() -> None:
    assert counted(2, "entry", "entries") == "2 entries"


def test_an_address_is_quoted_and_has_no_empty_parameter() -> None:
    assert link_to("providers", "a/b?c#d%é") == "/providers/a%2Fb%3Fc%23d%25%C3%A9"
    assert link_to("answers", q="a&b=c", provider="") == "/answers?q=a%26b%3Dc"
    assert link_to("decisions") == "/decisions"
    assert link_to("decisions", q="\udcff") == "/decisions?q=%3F"


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb"]
)
def test_a_link_that_leaves_the_page_leads_to_the_overview(link: str) -> None:
    assert local_path(link) == "/"


def test_a_link_inside_the_page_stays() -> None:
    assert local_path("/providers/ecr?q=1") == "/providers/ecr?q=1"
