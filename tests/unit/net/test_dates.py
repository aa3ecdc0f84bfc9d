"""Dates of HTTP: the one form that servers send, and nothing that only resembles it."""

from __future__ import annotations

import pytest

from keyferry._net.dates import parse_date


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1709251199),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253402300799),
    ],
)
def test_a_date_is_read(text: str, seconds: int) -> None:
    assert parse_date(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "30", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun, 06 Nov 1994 08:4937 GMT ", "Sun, \u0660\u0666 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT" * 1000,
    ],
)  # fmt: skip
def test_other_text_is_no_date(text: str) -> None:
    assert parse_date(text) is None
