"""The pages that explain: their commands print what the pages show, and the files that they name are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.page_commands import check_commands

ROOT = Path(__file__).resolve().parents[2]
DECIDES = ROOT / "docs" / "how-the-kubelet-decides.md"
PAGES = (DECIDES, ROOT / "docs" / "threat-model.md")


@pytest.mark.skipif(sys.platform == "win32", reason="the page is for a POSIX shell")
def test_the_surprises_of_the_kubelet_are_shown_by_the_commands_of_the_page(tmp_path: Path) -> None:
    check_commands(DECIDES, tmp_path)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_an_explanation_names_is_there(page: Path) -> None:
    """Files are named from the root of the repository, tests also from their folder."""
    named = set(
        re.findall(r"`([\w-]+(?:/[\w.-]+)*/[\w-]+\.(?:py|c|toml)|test_\w+\.py)`", page.read_text("utf-8"))
    )
    assert named
    places = (ROOT, ROOT / "tests")
    assert [each for each in sorted(named) if not any((place / each).is_file() for place in places)] == []
