"""Every picture and every figure is made again by a command that the Makefile has and a page names."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from support.pages import ROOT, page_names, prose, written_text

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


def test_the_readme_has_the_figures_of_the_page() -> None:
    table = (ROOT / "README.md").read_text("utf-8").partition("<!-- figures: ")[2].partition("<!-- end")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    speed = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert rows
    for _job, *figures in rows:
        assert f"| {' | '.join(figures)} |" in speed


# A number with a unit of time or size. What is measured has one of the first, a limit or a setting one of the second.
NUMBER = r"(?<![\w.,:/$-])\d[\d,.]*(?: (?:to|and|or|…) \d[\d,.]*)?[ -]"
MEASURE = re.compile(NUMBER + r"(?:[mµn]s|[KkMG]B|B|(?:milli|micro)seconds?)\b")
SETTING = re.compile(NUMBER + r"(?:s|seconds?|minutes?|hours?|[KMG]iB|bytes?)\b")
# What a figure of the second kind is, by the words around it, and why no command has to make it again.
KINDS = {
    "a limit, which changes with a line of code": r"at most|up to|within|more than|longer than|once in|limit|deadline|"
    r"gives up|the kubelet's|A run has|is not run|not asked again|may not prompt|may have|used until|leeway|to accept|"
    r"4 MiB of|64 MiB of|already valid|only the plugin|not used in its last|Each request has|it works once|retried for",
    "a setting or its default": r"default|optional|`--[a-z-]+`|every|between attempts|has not answered|in the last",
    "how long a token is valid, as its issuer says": r"valid|lifetime|expiry|ECR|Docker Hub",
}
# Pages with figures of the second kind alone, and why.
EXEMPT = {
    "docs/agent-protocol.md": "limits, which integration/agent/test_page_protocol.py compares with the code",
    "docs/fleet.md": "what is assumed of the simulated nodes, and arithmetic on it",
}


def stray_figures(text: str, *, is_exempt: bool = False) -> list[str]:
    """The figures that a command should make, with the words around them."""
    found = list(MEASURE.finditer(text))
    if not is_exempt:
        kinds = re.compile("|".join(KINDS.values()), re.IGNORECASE)
        found += [match for match in SETTING.finditer(text) if not kinds.search(around(text, match))]
    return [around(text, match) for match in found]


def around(text: str, match: re.Match[str]) -> str:
    """The figure with the words before and after it, of its own line."""
    before = text[: match.start()].rpartition("\n")[2]
    return f"{before[-90:]}{match[0]}{text[match.end() :].partition(chr(10))[0][:45]}"


@pytest.mark.parametrize("page", page_names())
def test_a_figure_is_made_by_a_command_or_is_a_setting(page: str) -> None:
    """Outside of the parts that a command writes, there are limits and settings, and no measurements."""
    assert stray_figures(prose(page), is_exempt=page in EXEMPT) == []


@pytest.mark.parametrize("page", EXEMPT)
def test_an_exempt_page_needs_it(page: str) -> None:
    """The exemption ends with its figures."""
    assert stray_figures(prose(page))


@pytest.mark.parametrize(
    "text", ["takes 24 µs", "about 16 to 19 MB", "a 1.4-ms start", "1,217 ms at most", "runs 3 s"]
)
def test_a_measurement_is_found(text: str) -> None:
    assert stray_figures(text)


@pytest.mark.parametrize("text", ["At most 3 s", "v1.3 s", "the default is 10 minutes", "10 servers"])
def test_a_setting_is_no_measurement(text: str) -> None:
    assert stray_figures(text) == []
