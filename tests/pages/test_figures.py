"""Every picture is on a page, and every figure names the command that measures it again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import ROOT, page_names

PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
# What is measured or simulated, and the target that does it again.
MEASURED = (
    ("README.md", "bench"),
    ("docs/figures.md", "bench"),
    ("docs/figures.md", "faults"),
    ("docs/figures.md", "fleet"),
    ("docs/figures.md", "fuzz"),
    ("docs/figures.md", "soak"),
)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_on_a_page(picture: Path) -> None:
    assert any(f"pictures/{picture.name})" in (ROOT / page).read_text("utf-8") for page in page_names())


@pytest.mark.parametrize(("page", "target"), MEASURED)
def test_what_is_measured_names_its_command(page: str, target: str) -> None:
    """In the text, for whoever wants to measure again; ``test_commands.py`` knows the targets."""
    shown = re.sub(r"<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert f"`make {target}" in shown
