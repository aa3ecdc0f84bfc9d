"""Matching under any input at all."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from keyferry._net.address import bytewise, readable
from keyferry.errors import MatchError
from keyferry.images.match import (
    PatternIndex,
    explain_match,
    matches,
    normalise_key,
    parse_pattern,
    parse_registry_url,
)

# Few labels, so that patterns and images meet; the odd ones are where parsers differ.
LABELS = [
    "a", "b", "ab", "ba", "aba", "1", "", "*", "a*", "*a", "a*b", "*a*", "ab*ba", "**", "é", "*é", "%C3%A9",
]  # fmt: skip
ODD_LABELS = ["%A9", "*%A9", "%25", "%41", "%", "a]b", "a[b", "A", "<", " ", "\\", "\ud800", "\udcc3"]
HOSTS = [
    "[::1]", "[2001:db8::a]", "[::ffff:1.2.3.4]", "[::1%25a-c]", "[::1%25b*]", "[::1%25%5D*%5Ba%5D]", "[x]",
]  # fmt: skip
PORTS = ["", "", "", ":", ":5", ":05", ":*", ":5:5", "x"]
PATHS = [
    "", "", "/", "/a", "/ab", "/a/b", "/a%2Fb", "/%61", "/é", "/%C3", "/*", "//", "/a b", "/%z", "/a\x00",
]  # fmt: skip
USERS = ["", "", "", "", "u@", "u:p@", "u v@", "u%z@", "@", "a@b@"]
TAILS = ["", "", "", "", "?", "?q", "#", "#f", "#%z", "#\x01", "?#", "\n"]

labels = st.lists(st.sampled_from(LABELS * 3 + ODD_LABELS), min_size=1, max_size=3).map(".".join)
hosts = st.one_of(labels, labels, labels, st.sampled_from(HOSTS))
names = st.tuples(*map(st.sampled_from, (USERS,)), hosts, *map(st.sampled_from, (PORTS, PATHS, TAILS))).map(
    "".join
)
texts = st.one_of(
    names, names, names, st.text(max_size=12), st.text(alphabet="ab.*:/[]%@?#1\n ", max_size=10)
)
owned = st.lists(st.tuples(st.integers(-3, 3), texts), max_size=12)


def brute_force(patterns: list[tuple[int, str]], image: str) -> tuple[tuple[int, str], ...]:
    first: dict[int, str] = {}
    for owner, text in patterns:
        if owner not in first and matches(text, image):
            first[owner] = text
    return tuple(sorted(first.items()))


@given(owned, st.lists(texts, min_size=1, max_size=4))
def test_index_agrees_with_brute_force(patterns: list[tuple[int, str]], images: list[str]) -> None:
    index = PatternIndex(patterns)
    # A second image of the same host, and a path that the URL parser changes.
    beside = [f"{image}{more}" for image in images for more in ("", "/b", "/%61", "a")]
    for image in beside:
        assert index.match(image) == brute_force(patterns, image)


@given(texts, texts)
def test_verdict_agrees_with_the_rules(pattern: str, image: str) -> None:
    verdict = explain_match(pattern, image)
    assert verdict.matched is matches(pattern, image) is (verdict.rule == "matched")
    assert verdict.why
    assert "\n" not in verdict.why


@given(texts, texts)
def test_what_does_not_match_has_go_s_error_where_go_has_one(pattern: str, image: str) -> None:
    verdict = explain_match(pattern, image)
    if verdict.kubernetes_text:
        assert not verdict.matched
        assert verdict.kubernetes_text.startswith(('parse "https://', "syntax error in pattern"))
    else:
        assert verdict.matched is matches(parse_pattern(pattern), parse_registry_url(image))


@given(
    st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}(:[0-9]{1,2})?(/[a-z%]{0,3}){0,2}", fullmatch=True),
    st.text(),
)
def test_plain_name_matches_what_begins_with_it(name: str, more: str) -> None:
    path = "/" + re.sub(r"[%?#\x00-\x1f\x7f]", "", more)
    if matches(name, name):
        assert matches(name, name + path)


@given(st.lists(st.sampled_from(["*", "a", "b", "ab"]), max_size=6).map("".join), st.text("ab", max_size=8))
def test_star_is_any_run(glob: str, label: str) -> None:
    assert matches(glob, label) is bool(re.fullmatch(glob.replace("*", ".*"), label))


@given(st.binary())
def test_bytes_survive(data: bytes) -> None:
    raw = data.decode("latin-1")
    assert bytewise(readable(raw)) == raw


@given(texts.filter(lambda key: not key.startswith(("http://", "https://"))))
def test_scheme_of_a_key_is_optional(key: str) -> None:
    assert normalised("https://" + key) == normalised("http://" + key) == normalised(key)


def normalised(key: str) -> str | None:
    try:
        return normalise_key(key)
    except MatchError:
        return None
