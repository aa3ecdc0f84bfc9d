"""Every picture and every table of figures is made again by a command that the Makefile has and a page names."""

import re
import struct
from pathlib import Path

import pytest

from support.pages import ROOT, page_names, written_text

PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# The beginning of a part that a target writes, with the target's name, and its end.
BEGIN = re.compile(r"<!-- (?:\w+: )?written by `make (\w+)`[^>]*-->|<!-- (\w+): begin -->")
END = re.compile(r"<!-- end of [^>]*-->|<!-- \w+: end -->")
# What is measured or simulated, and the target that does it again.
MEASURED = (
    ("README.md", "bench"),
    ("docs/fleet.md", "fleet"),
    ("docs/reliability.md", "faults"),
    ("docs/reliability.md", "fuzz"),
    ("docs/reliability.md", "mutants"),
    ("docs/reliability.md", "soak"),
    ("docs/speed.md", "bench"),
)


def recipes() -> dict[str, str]:
    """The commands of each target."""
    return dict(re.findall(r"^([a-z-]+):.*##.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE))


def makers(picture: Path) -> set[str]:
    """The targets with a program that names the picture, or makes its name."""
    return {
        target
        for target, commands in recipes().items()
        for program in re.findall(r"\b(?:tools|bench)/\w+\.py", commands)
        if is_named(picture, source_of(ROOT / program))
    }


def source_of(program: Path) -> str:
    """The text of a program, and of the modules in a folder beside it that it imports."""
    text = program.read_text(encoding="utf-8")
    names = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    parts = [path for name in names for path in program.parent.glob(f"{name}/*.py")]
    return "".join([text, *(path.read_text(encoding="utf-8") for path in parts)])


def is_named(picture: Path, source: str) -> bool:
    return any(name in source for name in (f'"{picture.stem}"', f'"{picture.name}"'))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_on_a_page_and_made_by_a_target_that_is_documented(picture: Path) -> None:
    assert any(f"pictures/{picture.name})" in (ROOT / page).read_text("utf-8") for page in page_names())
    targets = makers(picture)
    assert targets, "no program of a target names it"
    documented = written_text("CONTRIBUTING.md")
    assert all(f"`make {target}`" in documented for target in targets)


def windows() -> dict[str, tuple[int, int]]:
    """The windows of which pictures are taken, by name."""
    source = (ROOT / "tools" / "page_pictures.py").read_text(encoding="utf-8")
    (names, values) = re.findall(r"^(_\w+, _\w+, _\w+) = (.*)$", source, re.MULTILINE)[0]
    widths = dict(zip(names.split(", "), map(int, values.split(", ")), strict=True))
    rows = re.findall(r'^    Picture\("([\w-]+)", .*?, (_\w+), (\d+)', source, re.MULTILINE)
    return {name: (widths[width], int(height)) for name, width, height in rows}


def test_the_pictures_of_the_page_are_those_of_its_windows() -> None:
    """No two runs of a browser draw the same bytes everywhere; the size and the number of pictures is fixed."""
    found = {
        path.stem: struct.unpack(">II", path.read_bytes()[16:24])
        for path in PICTURES
        if path.suffix == ".png"
    }
    # A picture of a whole page, which has no height of its own, is at least as high as its window.
    known = {name: (width, height or found[name][1]) for name, (width, height) in windows().items()}
    assert found == known
    assert min(height for _, height in found.values()) >= 800


@pytest.mark.parametrize("page", page_names())
def test_a_generated_part_has_a_target_and_an_end(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for begin in BEGIN.finditer(text):
        assert (begin[1] or begin[2]) in recipes(), begin[0]
        inside = text[begin.end() :]
        end, next_begin = END.search(inside), BEGIN.search(inside)
        if begin.start() > 0:  # else the whole page is written
            assert end is not None, begin[0]
            assert next_begin is None or end.start() < next_begin.start(), begin[0]


@pytest.mark.parametrize(("page", "target"), MEASURED)
def test_what_is_measured_names_its_command(page: str, target: str) -> None:
    """In the text, for whoever wants to measure again."""
    shown = re.sub(r"<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert f"`make {target}" in shown
    assert target in recipes()
