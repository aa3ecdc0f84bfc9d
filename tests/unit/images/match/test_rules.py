"""The kubelet's matching rules, one by one."""

from __future__ import annotations

import pytest

from keyferry.images.match import explain_match, matches

CASES = [
    pytest.param("reg.io", "reg.io:5000/x", False, id="no port matches only no port"),
    pytest.param("reg.io:443", "reg.io/x", False, id="no port is not 443"),
    pytest.param("reg.io:", "reg.io/x", True, id="an empty port is no port"),
    pytest.param("reg.io:5000", "reg.io:05000", False, id="ports are text"),
    pytest.param("reg.io/foo", "reg.io/foobar", True, id="a path is a plain prefix"),
    pytest.param("reg.io/foo/", "reg.io/foo", False, id="a final slash must be there"),
    pytest.param("reg.io/", "reg.io", False, id="a bare slash, too"),
    pytest.param("reg.io/*", "reg.io/x", False, id="no star in a path"),
    pytest.param("reg.io/*", "reg.io/*x", True, id="but the character itself"),
    pytest.param("reg.io/a%2Fb", "reg.io/a/b/c", True, id="paths are decoded"),
    pytest.param("reg.io/%C3", "reg.io/é", True, id="paths are bytes"),
    pytest.param("reg.io/a+b", "reg.io/a%20b", False, id="a plus is no space"),
    pytest.param("*.io", "reg.io", True, id="star"),
    pytest.param("*.io", "a.reg.io", False, id="a star stays within its part"),
    pytest.param("app*.io", "app.io", True, id="a star may be empty"),
    pytest.param("**.io", "app.io", True, id="two stars are one"),
    pytest.param("*.io", ".io", True, id="even for an empty part"),
    pytest.param("a*b*c.io", "axbxc.io", True, id="several stars"),
    pytest.param("a*b*c.io", "axcxb.io", False, id="several stars keep their order"),
    pytest.param("ab*ba.io", "aba.io", False, id="the ends do not overlap"),
    pytest.param("*ab*ab*.io", "xabx.io", False, id="each middle needs its own place"),
    pytest.param("a?c.io", "abc.io", False, id="a question mark starts the query"),
    pytest.param("reg.io?x", "reg.io/a?y", True, id="queries are ignored"),
    pytest.param("reg.io#x", "reg.io#y", True, id="fragments are ignored"),
    pytest.param("u@reg.io", "v:w@reg.io/x", True, id="user info is ignored"),
    pytest.param("*.IO", "reg.io", False, id="case matters in a host"),
    pytest.param("reg.io/Foo", "reg.io/foo", False, id="case matters in a path"),
    pytest.param("*é.io", "aé.io", True, id="beyond ASCII"),
    pytest.param("*%A9.io", "é.io", True, id="a star may end inside a character"),
    pytest.param("reg.io.", "reg.io", False, id="a final dot is a part"),
    pytest.param("", "/x", True, id="empty matches the empty host"),
    pytest.param("[2001:db8::1]", "[2001:db8::1]", False, id="IPv6 without port does not match itself"),
    pytest.param("[2001:db8::1]", "1", True, id="it is a character class"),
    pytest.param("[2001:db8::1]", "12", False, id="for one character"),
    pytest.param("[2001:db8::1]", "", False, id="and not for none"),
    pytest.param("[::1%25a-e]", "c", True, id="a range in a zone"),
    pytest.param("[::1%25é]", "é", True, id="a class is of characters"),
    pytest.param("[::1%25\ufffd]", "%ff", True, id="a byte that is no UTF-8 counts as U+FFFD"),
    pytest.param("[::1%25%5D*%5Ba%5D]:5", "1xxa]:5", True, id="classes around a star"),
    pytest.param("[::1]:5", "[::1]:5/x", True, id="IPv6 with port works"),
    pytest.param("[::1%25a*]:5", "[::1%25abc]:5", True, id="star in a zone"),
    pytest.param("a]b:5", "a]b:5", True, id="a stray bracket is literal"),
]

ERRORS = [
    pytest.param(
        "reg.io:*", "x:y", 'parse "https://reg.io:*": invalid port ":*" after host', id="pattern first"
    ),
    pytest.param("reg.io", "x:y", 'parse "https://x:y": invalid port ":y" after host', id="then the image"),
    pytest.param("[::ffff:1.2.3.4]", "a.b.c.d", "syntax error in pattern", id="a glob that is reached"),
    pytest.param("[::1%25a-]", "a", "syntax error in pattern", id="a range without end"),
    pytest.param("[::1%25\udcff]", "a", "syntax error in pattern", id="a class that is no UTF-8"),
]

VERDICTS = [
    pytest.param("reg.io:x", "y:z", "pattern-unparsable", "y:z", "reg.io:x", "port 'x' is not", id="pattern"),
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


@pytest.mark.parametrize(("pattern", "image", "expected"), CASES)
def test_pattern_matches_as_in_the_kubelet(pattern: str, image: str, expected: bool) -> None:
    assert matches(pattern, image) is expected
    verdict = explain_match(pattern, image)
    assert (verdict.matched, verdict.kubernetes_text) == (expected, "")


@pytest.mark.parametrize(("pattern", "image", "text"), ERRORS)
def test_error_is_reported_in_the_words_of_go(pattern: str, image: str, text: str) -> None:
    assert explain_match(pattern, image).kubernetes_text == text
    assert matches(pattern, image) is False


@pytest.mark.parametrize("image", ["a.b.c.d:5", "a.b", "1"])
def test_bad_glob_that_is_not_reached_is_no_error(image: str) -> None:
    verdict = explain_match("[::ffff:1.2.3.4]", image)
    assert (verdict.matched, verdict.kubernetes_text) == (False, "")


@pytest.mark.parametrize(("pattern", "image", "rule", "found", "expected", "why"), VERDICTS)
def test_verdict_names_the_first_rule_that_fails(
    pattern: str, image: str, rule: str, found: str, expected: str, why: str
) -> None:
    verdict = explain_match(pattern, image)
    assert verdict.matched is (rule == "matched")
    assert (verdict.rule, verdict.found, verdict.expected) == (rule, found, expected)
    assert why in verdict.why


@pytest.mark.parametrize(("pattern", "image"), [("u:hunter2@r.io", "r.io"), ("r.io", "u:hunter2@r.io:x")])
def test_verdict_holds_no_password(pattern: str, image: str) -> None:
    assert "hunter2" not in repr(explain_match(pattern, image))


def test_long_names_do_not_take_long() -> None:
    assert matches("*a" * 40 + "b.io", "a" * 400 + ".io") is False
