"""Registry URLs as Go's parser reads them."""

from __future__ import annotations

import pytest

from keyferry._net.address import bytewise, readable
from keyferry.errors import MatchError
from keyferry.images.match import normalise_key, parse_registry_url

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
