"""Patterns and keys against images: the kubelet's rules, one by one and many at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from keyferry._net.address import bytewise, readable
from keyferry.errors import MatchError
from keyferry.images.match import PatternIndex, explain_match, matches, normalise_key, parse_registry_url

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


PARSED = [
    pytest.param("reg.io", ("reg.io", "reg.io", "", ""), id="host only"),
    pytest.param("reg.io/", ("reg.io", "reg.io", "", "/"), id="a bare slash is a path"),
    pytest.param("reg.io:5000/a", ("reg.io:5000", "reg.io", "5000", "/a"), id="port"),
    pytest.param("reg.io:", ("reg.io:", "reg.io", "", ""), id="an empty port is no port"),
    pytest.param("reg.io:99999", ("reg.io:99999", "reg.io", "99999", ""), id="ports have no range"),
    pytest.param("", ("", "", "", ""), id="empty"),
    pytest.param(":5000/x", (":5000", "", "5000", "/x"), id="port without host"),
    pytest.param("a:b@reg.io/x", ("reg.io", "reg.io", "", "/x"), id="user info is dropped"),
    pytest.param("a@b@reg.io", ("reg.io", "reg.io", "", ""), id="the last at sign ends user info"),
    pytest.param("reg.io?x/y", ("reg.io", "reg.io", "", ""), id="query"),
    pytest.param("reg.io/a?b", ("reg.io", "reg.io", "", "/a"), id="a query after a path"),
    pytest.param("reg.io/a?%zz", ("reg.io", "reg.io", "", "/a"), id="escapes in a query are not checked"),
    pytest.param("reg.io/a#b?c", ("reg.io", "reg.io", "", "/a"), id="fragment"),
    pytest.param("reg.io#\x01", ("reg.io", "reg.io", "", ""), id="control characters pass in a fragment"),
    pytest.param(
        "reg.io/a%2Fb+c d", ("reg.io", "reg.io", "", "/a/b+c d"), id="path is decoded, plus is kept"
    ),
    pytest.param("reg%25.io", ("reg%.io", "reg%.io", "", ""), id="escaped percent in a host"),
    pytest.param("%C3%A9.io", ("é.io", "é.io", "", ""), id="escaped UTF-8 in a host"),
    pytest.param("reg.io/%C3", ("reg.io", "reg.io", "", "/\udcc3"), id="a byte that is no UTF-8"),
    pytest.param('<r"g>.io', ('<r"g>.io', '<r"g>.io', "", ""), id="brackets and quotes"),
    pytest.param("[::1]", ("[::1]", "[::1]", "", ""), id="IPv6 without port keeps its brackets"),
    pytest.param("[::1]:", ("[::1]:", "::1", "", ""), id="an empty port takes the brackets off"),
    pytest.param("[::1]:50/x", ("[::1]:50", "::1", "50", "/x"), id="IPv6 with port"),
    pytest.param("[fe80::1%25a%20b]:5", ("[fe80::1%a b]:5", "fe80::1%a b", "5", ""), id="zone"),
    pytest.param("a]b:5", ("a]b:5", "a]b:5", "", ""), id="a stray bracket hides the port"),
    pytest.param("[::1%25a%5Db]:5", ("[::1%a]b]:5", "[::1%a]b]:5", "", ""), id="a bracket in the zone, too"),
    pytest.param("HTTPS://reg.io", ("HTTPS:", "HTTPS", "", "//reg.io"), id="a scheme is a host"),
]

REFUSED = [
    pytest.param("reg.io:bad", 'invalid port ":bad" after host', id="port"),
    pytest.param("reg.io:5:5", 'invalid port ":5:5" after host', id="two colons"),
    pytest.param("reg.io/\x7f", "net/url: invalid control character in URL", id="control character"),
    pytest.param("reg.io ", 'invalid character " " in host name', id="space in host"),
    pytest.param("r\\g.io", 'invalid character "\\\\" in host name', id="backslash in host"),
    pytest.param("a%2Eio", 'invalid URL escape "%2E"', id="escaped ASCII in host"),
    pytest.param("reg%.io", 'invalid URL escape "%.i"', id="malformed escape in host"),
    pytest.param("reg.io/%z", 'invalid URL escape "%z"', id="malformed escape in path"),
    pytest.param("reg.io/%€", 'invalid URL escape "%\\xe2\\x82"', id="an escape is cut by bytes"),
    pytest.param("u v@reg.io", "net/url: invalid userinfo", id="space in user info"),
    pytest.param("ü@reg.io", "net/url: invalid userinfo", id="letter beyond ASCII in user info"),
    pytest.param("u:p%z@reg.io", 'invalid URL escape "%z"', id="malformed escape in user info"),
    pytest.param("u v@reg.io:x", 'invalid port ":x" after host', id="host before user info"),
    pytest.param("a[0-9].io", "invalid IP-literal", id="bracket inside a host"),
    pytest.param("[::1", "missing ']' in host", id="bracket not closed"),
    pytest.param("[a-g]cr.io", 'invalid port "cr.io" after host', id="text behind brackets"),
    pytest.param("[10.0.0.1]", "invalid IP-literal", id="IPv4 in brackets"),
    pytest.param("[::1%25%C3]", 'invalid URL escape "%C3"', id="escaped byte in zone"),
    pytest.param("[::1%25a^]", 'invalid character "^" in host name', id="caret in zone"),
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

KEYS = [
    pytest.param("reg.io", "reg.io", id="host"),
    pytest.param("https://reg.io", "reg.io", id="https"),
    pytest.param("http://reg.io/v1/foo", "reg.io/foo", id="http and version"),
    pytest.param("https://index.docker.io/v1/", "index.docker.io", id="docker's own key"),
    pytest.param("reg.io/v2/", "reg.io", id="v2"),
    pytest.param("reg.io/v1", "reg.io/v1", id="a version needs its slash"),
    pytest.param("reg.io/v1/v2/", "reg.io/v2/", id="cut once"),
    pytest.param("reg.io/foo/v1/", "reg.io/foo/v1/", id="only in front"),
    pytest.param("reg.io:5000/v1/", "reg.io:5000", id="the port stays"),
    pytest.param("u:p@reg.io/?q#f", "reg.io", id="user info, query and fragment vanish"),
    pytest.param("reg.io/a%2Fb", "reg.io/a/b", id="the path is decoded"),
    pytest.param("HTTPS://reg.io", "HTTPS://reg.io", id="a scheme in capitals is none"),
    pytest.param("https://", "", id="nothing"),
    pytest.param("[::1]:5/v1/", "[::1]:5", id="IPv6"),
]


@pytest.mark.parametrize(("text", "expected"), PARSED)
def test_parts_are_those_go_sees(text: str, expected: tuple[str, ...]) -> None:
    url = parse_registry_url(text)
    assert (url.authority, url.host, url.port, url.path) == expected


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refusal_has_the_words_of_go(text: str, reason: str) -> None:
    with pytest.raises(MatchError) as caught:
        parse_registry_url(text)
    assert caught.value.kubernetes_text.startswith('parse "https://')
    assert caught.value.kubernetes_text.endswith(f'": {reason}')


@pytest.mark.parametrize(("address", "problem"), BAD_ADDRESSES)
def test_bad_address_is_named(address: str, problem: str) -> None:
    with pytest.raises(MatchError) as caught:
        parse_registry_url(f"[{address}]")
    assert caught.value.kubernetes_text.endswith(f"): {problem}")
    assert "is not an IPv6 address" in str(caught.value)


@pytest.mark.parametrize(
    "address", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::"]
)
def test_good_address_is_accepted(address: str) -> None:
    assert parse_registry_url(f"[{address}]:5").host == address


@pytest.mark.parametrize(("key", "expected"), KEYS)
def test_key_is_normalised(key: str, expected: str) -> None:
    assert normalise_key(key) == expected


@pytest.mark.parametrize("key", ["reg.io:bad", "reg.io/%zz", "[::1", " reg.io", "http://reg.io\n"])
def test_unparsable_key_is_refused(key: str) -> None:
    with pytest.raises(MatchError):
        normalise_key(key)


def test_scheme_of_a_key_is_in_the_words_of_go() -> None:
    with pytest.raises(MatchError) as caught:
        normalise_key("http://reg.io:bad")
    assert caught.value.kubernetes_text == 'parse "http://reg.io:bad": invalid port ":bad" after host'


def test_message_is_for_people() -> None:
    with pytest.raises(MatchError) as caught:
        parse_registry_url("reg.io:bad")
    assert str(caught.value) == "'reg.io:bad' is not a registry URL: port 'bad' is not a number"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        pytest.param("reg.io:x#f", "https://reg.io:x", id="the fragment is left out"),
        pytest.param("reg.io#%z", "https://reg.io#%z", id="unless it is at fault"),
    ],
)
def test_reported_url(text: str, reported: str) -> None:
    with pytest.raises(MatchError) as caught:
        parse_registry_url(text)
    assert caught.value.kubernetes_text.startswith(f'parse "{reported}": ')


@pytest.mark.parametrize("text", ["u:hunter2@reg.io:bad", "u:hunter2@reg.io ", "u:hunter2%z@reg.io"])
def test_password_stays_out_of_the_message(text: str) -> None:
    with pytest.raises(MatchError) as caught:
        parse_registry_url(text)
    assert "hunter2" not in str(caught.value)


def test_lone_surrogates_are_replaced() -> None:
    assert readable(bytewise("a\ud800b")) == "a\ufffdb"


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


def test_threads_share_an_index() -> None:
    index = PatternIndex(enumerate(["*.io", "gcr.io/team", "*", "reg.io:5000", "[::1]:5000"]))
    images = ["gcr.io/team/app", "reg.io:5000", "busybox", "[::1]:5000/x", "gcr.io/\x00"]
    expected = [index.match(image) for image in images]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: [index.match(image) for image in images], range(200))
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
