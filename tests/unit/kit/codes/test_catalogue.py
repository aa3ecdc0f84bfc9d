"""The kit's checks, and what its page says of them."""

import re
from pathlib import Path

from keyferry.kit.codes.catalogue import CHECKS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "kit.md"


def test_the_table_of_codes_is_that_of_the_code() -> None:
    """Every check has its row, with its severity and promise, in order; and there are no others."""
    rows = re.findall(r"^\| (KP\d+) \| (\w+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(check.code, check.severity, check.title) for check in CHECKS.values()]


def test_the_example_run_shows_real_texts() -> None:
    """What the page shows of a report is what a report says."""
    page = PAGE.read_text(encoding="utf-8")
    for code, title in re.findall(r"^[✓✗!] (KP\d+)  (.*)$", page, re.MULTILINE):
        assert CHECKS[code].title == title
    for text in re.findall(r"^    (?:why|change)\s+(.*)$", page, re.MULTILINE):
        assert any(text in (check.why, check.fix) for check in CHECKS.values())
