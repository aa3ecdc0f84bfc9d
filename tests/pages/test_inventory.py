"""No example is overlooked: every block has a language, and each page with examples has a test that reads it.

YAML, JSON and TOML are read in ``test_documents.py``, whatever the page; every command is parsed in
``test_commands.py``. Generated pages come from the program itself.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from support.pages import all_blocks, page_names, written_text

TESTS = Path(__file__).resolve().parents[1]
# The languages of what a reader runs.
EXAMPLES = ("console", "pycon", "python", "sh")
# Tests of all pages alike, which run no example.
OF_ALL_PAGES = ("test_commands.py", "test_documents.py", "test_figures.py", "test_inventory.py")
# Pages of which no test runs an example, and why not.
NOT_RUN = {
    "CONTRIBUTING.md": "runs the checks themselves; test_commands.py knows their targets",
    "docs/index.md": "installs keyferry; the step 'pages' of make release-check runs it",
}


@cache
def texts() -> str:
    """The text of all tests that may be about one page."""
    paths = sorted(path for path in TESTS.rglob("test_*.py") if path.name not in OF_ALL_PAGES)
    return "".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("page", sorted({each.page for each in all_blocks() if each.language in EXAMPLES}))
def test_a_page_with_examples_has_a_test_that_reads_it(page: str) -> None:
    path = Path(page)
    names = (page, path.name) if path.stem != "README" else (page,)
    assert any(f'"{name}"' in texts() for name in names) is (page not in NOT_RUN)


def test_every_fence_is_a_block_with_a_language() -> None:
    fences = {
        page: sum(line.strip().startswith("```") for line in written_text(page).splitlines())
        for page in page_names()
    }
    found = Counter(block.page for block in all_blocks())
    assert {page: count for page, count in fences.items() if count} == {
        page: 2 * count for page, count in found.items()
    }
    assert [block.place for block in all_blocks() if not block.language] == []
