"""Many patterns at once, against the rules one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from keyferry.images.match import PatternIndex, matches

PATTERNS = [
    "*.dkr.ecr.*.amazonaws.com",
    "123.dkr.ecr.eu-west-1.amazonaws.com",
    "gcr.io",
    "gcr.io/team",
    "gcr.io/team/app",
    "gcr.io/tea",
    "*.io",
    "g*.io",
    "*r.io",
    "g*r.io",
    "g*c*r.io",
    "gcr.*",
    "*",
    "reg.io:5000/team",
    "*.io:5000",
    "reg.io:bad",
    "[2001:db8::1]",
    "[::ffff:1.2.3.4]",
    "[::1]:5000",
    "é*.io",
    "*%A9.io",
    "",
    "reg..io",
]

IMAGES = [
    "123.dkr.ecr.eu-west-1.amazonaws.com/app",
    "456.dkr.ecr.us-east-1.amazonaws.com",
    "gcr.io",
    "gcr.io/team/app/x",
    "gcr.io/tea",
    "gcr.io/zebra",
    "gr.io",
    "reg.io:5000/team-x",
    "reg.io:5000",
    "reg..io/x",
    "é.io",
    "%C3%A9.io/x",
    "1/x",
    "library/busybox",
    "busybox:latest",
    "[::1]:5000/x",
    "10.20.30.40",
    "u@gcr.io/te%61m?q#f",
    "",
    "/x",
    "gcr.io/\x00",
]


@pytest.mark.parametrize("image", IMAGES)
def test_index_agrees_with_the_rules(image: str) -> None:
    index = PatternIndex(enumerate(PATTERNS))
    assert index.match(image) == tuple((n, text) for n, text in enumerate(PATTERNS) if matches(text, image))


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param(
            [(7, "*.io"), (7, "r.io")], ((7, "*.io"),), id="the first pattern, though less specific"
        ),
        pytest.param([(7, "x.io"), (7, "r.io"), (7, "*.io")], ((7, "r.io"),), id="the first that matches"),
        pytest.param([(7, "r.io/a"), (7, "r.io")], ((7, "r.io/a"),), id="the longer path first"),
        pytest.param([(7, "r.io"), (7, "r.io/a")], ((7, "r.io"),), id="the shorter path first"),
        pytest.param([(9, "r.io"), (-2, "r.io")], ((-2, "r.io"), (9, "r.io")), id="owners ascend"),
        pytest.param(
            [(1, "r.io"), (2, "*.io"), (1, "*.io")], ((1, "r.io"), (2, "*.io")), id="owners alternate"
        ),
        pytest.param([(1, "u@r.io"), (1, "r.io")], ((1, "u@r.io"),), id="patterns are given as written"),
        pytest.param([], (), id="no patterns"),
    ],
)
def test_each_owner_gets_its_first_pattern(
    patterns: list[tuple[int, str]], expected: tuple[tuple[int, str], ...]
) -> None:
    assert PatternIndex(patterns).match("r.io/a/b") == expected


def test_answers_repeat() -> None:
    index = PatternIndex([(0, "*.io"), (1, "r.io/a")])
    assert index.match("r.io/a") == index.match("r.io/a") == ((0, "*.io"), (1, "r.io/a"))


def test_threads_share_an_index() -> None:
    index = PatternIndex(enumerate(PATTERNS))
    expected = [index.match(image) for image in IMAGES]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: [index.match(image) for image in IMAGES], range(200))
        assert all(answer == expected for answer in answers)


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param([f"*.reg-{n}.example.com" for n in range(1000)], id="hosts"),
        pytest.param([f"eu.reg-7.example.com/team-{n}/" for n in range(1000)], id="paths"),
        pytest.param([f"eu.reg-7.example.com:{n}" for n in range(1000)], id="ports"),
    ],
)
def test_the_right_one_of_a_thousand_patterns_is_found(patterns: list[str]) -> None:
    index = PatternIndex(enumerate(patterns))
    image = patterns[7].replace("*", "eu").removesuffix("/") + "/app"
    assert index.match(image) == ((7, patterns[7]),)


@pytest.mark.parametrize(
    ("pattern", "image", "is_matched"),
    [
        ("a*a.io", "a.io/x", False),
        ("a*a.io", "aa.io/x", True),
        ("a*a.io", "aba.io/x", True),
        ("ab*bc.io", "abc.io", False),
        ("ab*bc.io", "abbc.io", True),
        ("reg.a*a", "reg.a", False),
        ("reg.a*a", "reg.aa", True),
    ],
)
def test_text_on_both_sides_of_a_star_does_not_overlap(pattern: str, image: str, *, is_matched: bool) -> None:
    """What stands before the star is not counted once more for what stands after it."""
    assert bool(PatternIndex([(0, pattern)]).match(image)) is is_matched is matches(pattern, image)
