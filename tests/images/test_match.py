"""Patterns against images: reasons, and what Kubernetes' recorded answers (tests/conformance) leave out."""

from __future__ import annotations

import pytest

from keyferry.images.match import explain_match, matches

CASES = [
    pytest.param("[::1%25\ufffd]", "%ff", True, id="a byte that is no UTF-8 counts as U+FFFD"),
    pytest.param("[::1%25%5D*%5Ba%5D]:5", "1xxa]:5", True, id="classes around a star"),
    pytest.param("[::1%25a*]:5", "[::1%25abc]:5", True, id="star in a zone"),
    pytest.param("a]b:5", "a]b:5", True, id="a stray bracket is literal"),
    pytest.param("[2001:db8::1]", "", False, id="a class is not for no character"),
]

# Errors in the words of Go.
ERRORS = [
    pytest.param("[::1%25a-]", "a", "syntax error in pattern", id="a range without end"),
    pytest.param("[::1%25\udcff]", "a", "syntax error in pattern", id="a class that is no UTF-8"),
    pytest.param(
        "reg.io", "x:y", 'parse "https://x:y": invalid port ":y" after host', id="the image's error"
    ),
    pytest.param(
        "u:p%z@reg.io",
        "a",
        'parse "https://u:p%z@reg.io": invalid URL escape "%z"',
        id="an escape of a password",
    ),
    pytest.param(
        "reg.io:x#f",
        "a",
        'parse "https://reg.io:x": invalid port ":x" after host',
        id="the fragment is left out",
    ),
    pytest.param(
        "reg.io#%z", "a", 'parse "https://reg.io#%z": invalid URL escape "%z"', id="unless it is at fault"
    ),
]

VERDICTS = [
    pytest.param(
        "reg.io:x",
        "y:z",
        "pattern-unparsable",
        "y:z",
        "reg.io:x",
        "'reg.io:x' is not a registry URL: port 'x' is not a number",
        id="pattern",
    ),
    pytest.param("reg.io", "y:z", "image-unparsable", "y:z", "reg.io", "port 'z' is not", id="image"),
    pytest.param("r.io", "a.b.c:50", "port", "50", "", "matches only images without one", id="no port"),
    pytest.param("r.io:50", "a.b.c", "port", "", "50", "there is no default port", id="no port in the image"),
    pytest.param("r.io:50", "r.io:050", "port", "050", "50", "equal as text", id="ports"),
    pytest.param("*.io/x", "a.b.io", "label-count", "3", "2", "has 3 dot-separated parts", id="count"),
    pytest.param("s.io/x", "r.io/y", "path-prefix", "/y", "/x", "does not begin with", id="path"),
    pytest.param(
        "r.io/*", "r.io/y", "path-prefix", "/y", "/*", "an ordinary character", id="path with a star"
    ),
    pytest.param("r.*m", "r.io", "label", "io", "*m", "part 2 of the image's host is 'io'", id="label"),
    pytest.param("[::ffff:1.2.3.4]", "a.b.c.d", "bad-glob", "a", "[::ffff:1", "is not a glob", id="bad glob"),
    pytest.param("*.io/a", "r.io/ab", "matched", "r.io/ab", "*.io/a", "neither has a port", id="matched"),
    pytest.param(
        "r.io:5", "r.io:5", "matched", "r.io:5", "r.io:5", "both have port 5", id="matched with port"
    ),
]

BAD_ADDRESSES = [
    ("", "unable to parse IP"),
    ("%25a", "missing IPv6 address"),
    ("::1%25", "zone must be a non-empty string"),
    (":1", 'each colon-separated field must have at least one digit (at ":1")'),
    ("::*", 'each colon-separated field must have at least one digit (at "*")'),
    ("12345::", 'each group must have 4 or less digits (at "12345::")'),
    ("1::2::3", 'multiple :: in address (at ":3")'),
    ("1:2:3:4:5:6:7", "address string too short"),
    ("1:2:3:4:5:6:7:8:", 'colon must be followed by more characters (at ":")'),
    ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
    ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
    ("::1g", 'unexpected character, want colon (at "g")'),
    ("1:2:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
    (
        "::2:3:4:5:6:7:8:1.2.3.4",
        'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
    ),
    ("::1.2.3", "IPv4 address too short"),
    ("1.2.3.4.5", "IPv4 address too long"),
    ("::1.2.3.256", "IPv4 field has value >255"),
    ("::1.2.3.04", "IPv4 field has octet with leading zero"),
    ("1.2..3", 'IPv4 field must have at least one digit (at ".3")'),
    ("v1.fe", 'unexpected character (at "v1.fe")'),
    ("1." + "9" * 5000 + ".0.0", "IPv4 field has value >255"),
]


@pytest.mark.parametrize(("pattern", "image", "expected"), CASES)
def test_pattern_matches_as_in_the_kubelet(pattern: str, image: str, expected: bool) -> None:
    verdict = explain_match(pattern, image)
    assert (verdict.matched, verdict.kubernetes_text) == (expected, "")
    assert matches(pattern, image) is expected


@pytest.mark.parametrize(("pattern", "image", "text"), ERRORS)
def test_error_is_reported_in_the_words_of_go(pattern: str, image: str, text: str) -> None:
    assert explain_match(pattern, image).kubernetes_text == text
    assert matches(pattern, image) is False


@pytest.mark.parametrize(("pattern", "image", "rule", "found", "expected", "why"), VERDICTS)
def test_verdict_names_the_first_rule_that_fails(
    pattern: str, image: str, rule: str, found: str, expected: str, why: str
) -> None:
    verdict = explain_match(pattern, image)
    assert verdict.matched is (rule == "matched")
    assert (verdict.rule, verdict.found, verdict.expected) == (rule, found, expected)
    assert why in verdict.why


@pytest.mark.parametrize(("address", "problem"), BAD_ADDRESSES)
def test_bad_address_is_named(address: str, problem: str) -> None:
    verdict = explain_match(f"[{address}]", "reg.io")
    assert verdict.kubernetes_text.endswith(f"): {problem}")
    assert "is not an IPv6 address" in verdict.why


@pytest.mark.parametrize(
    "address", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::"]
)
def test_good_address_is_accepted(address: str) -> None:
    assert matches(f"[{address}]:5", f"[{address}]:5/x")


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("u:hunter2@r.io", "r.io"),
        ("r.io", "u:hunter2@r.io:x"),
        ("u:hunter2@r.io:x", "r.io"),
        ("u:hunter2@r.io ", "r.io"),
        ("u:hunter2%z@r.io", "r.io"),
    ],
)
def test_verdict_holds_no_password(pattern: str, image: str) -> None:
    verdict = explain_match(pattern, image)
    assert "hunter2" not in repr(verdict) + verdict.why


def test_long_names_do_not_take_long() -> None:
    assert matches("*a" * 40 + "b.io", "a" * 400 + ".io") is False
