"""URLs as Go's parser reads and prints them."""

from __future__ import annotations

import pytest

from keyferry._net.url import (
    UrlSyntaxError,
    go_words,
    parse_request_uri,
    parse_url,
    read_url,
    split_host_port,
    split_registry_url,
)

PRINTED = [
    pytest.param("https://k:6443", "https://k:6443", id="plain"),
    pytest.param("HTTPS://K", "https://K", id="only the scheme loses its case"),
    pytest.param("http://p:1/?#", "http://p:1/?", id="a bare query stays, a bare fragment goes"),
    pytest.param("http://u:p%40w@p", "http://u:p%40w@p", id="user info"),
    pytest.param("http://u:p!w@p", "http://u:p%21w@p", id="user info is spelt anew"),
    pytest.param("http://pröxy", "http://pr%C3%B6xy", id="host"),
    pytest.param("http://p/a b%2f", "http://p/a%20b/", id="a path that had to be spelt anew"),
    pytest.param("http://p/a'(b)%2f", "http://p/a'(b)%2f", id="a path that could be Go's own"),
    pytest.param("socks5:foo", "socks5:foo", id="opaque"),
    pytest.param("http://[::1%25eth0]:80", "http://[::1%25eth0]:80", id="IPv6 with a zone"),
    pytest.param("http:///x", "http:///x", id="empty host"),
    pytest.param("http://", "http:", id="nothing at all"),
    pytest.param("http:/x", "http:/x", id="no host"),
    pytest.param("//h/x", "//h/x", id="no scheme"),
    pytest.param("///x", "///x", id="three slashes begin a path"),
    pytest.param("a/b:c", "a/b:c", id="relative"),
    pytest.param("http://p#a b", "http://p#a%20b", id="fragment"),
    pytest.param("http://p/\udc80", "http://p/%80", id="a byte that is no text"),
]
REFUSED = [
    *(
        "::",
        "1.2.3.4:80",
        "k/\x01",
        "http://k:bad",
        "http://k:1:2",
        "http://a b",
        "http://%41",
        "http://k/%zz",
    ),
    *(
        "http://[::1",
        "http://[1.2.3.4]",
        "http://x[::1]",
        "http://[::1]x",
        "http://[::1%25]",
        "http://[::1%41]",
    ),
    *("http://a^b@k", "http://a%zz@k", "http://k#%zz", "http://a\\b", "a:b:c/\x7f"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_urls_are_printed_as_go_does(text: str, printed: str) -> None:
    assert str(parse_url(text)) == printed


@pytest.mark.parametrize("text", REFUSED)
def test_what_go_refuses_is_none(text: str) -> None:
    assert parse_url(text) is None


def test_a_request_uri_has_no_fragment_and_is_absolute() -> None:
    assert str(parse_request_uri("https://k/a#b")) == "https://k/a%23b"
    assert str(parse_request_uri("//a:b/c")) == "//a:b/c"
    assert str(parse_request_uri("*")) == "*"
    assert parse_request_uri("") is None
    assert parse_request_uri("a/b") is None


@pytest.mark.parametrize(
    ("text", "host", "user_info"),
    [
        pytest.param("https://u:p%40w@k:6443/x", "k:6443", "u:p%40w", id="user info stays as it is written"),
        pytest.param("https://a@b@k", "k", "a@b", id="the last sign counts"),
        pytest.param("https://pr%C3%B6xy", "pröxy", "", id="a host is decoded"),
        pytest.param("https://[fe80::1%25eth0]:80", "[fe80::1%eth0]:80", "", id="so is a zone"),
        pytest.param("/path", "", "", id="none"),
    ],
)
def test_host_and_user_info_are_told_apart(text: str, host: str, user_info: str) -> None:
    url = read_url(text)
    assert (url.host, url.user_info) == (host, user_info)


@pytest.mark.parametrize(
    ("authority", "parts"),
    [
        ("h", ("h", "")),
        ("h:1", ("h", "1")),
        ("h:", ("h", "")),
        ("[::1]", ("[::1]", "")),
        ("[::1]:1", ("::1", "1")),
        ("::1", ("::1", "")),
        ("a]b:5", ("a]b:5", "")),
        ("[a:5", ("[a:5", "")),
        ("a]:5", ("a]:5", "")),
        ("[[a]]:5", ("[[a]]:5", "")),
        ("", ("", "")),
    ],
)
def test_a_host_is_told_apart_from_its_port(authority: str, parts: tuple[str, str]) -> None:
    """Brackets go only where a port follows, as in the kubelet."""
    assert split_host_port(authority) == parts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://k:x#f", 'parse "http://k:x": invalid port ":x" after host'),
        ("http://k#%z", 'parse "http://k#%z": invalid URL escape "%z"'),
        ("http://k/%é", 'parse "http://k/%é": invalid URL escape "%é"'),
        ("http://u:%zz@k", 'parse "http://u:%zz@k": invalid URL escape "%zz"'),
        ("http://x[::1]", 'parse "http://x[::1]": invalid IP-literal'),
        ("http://[::1", "parse \"http://[::1\": missing ']' in host"),
    ],
)
def test_a_refusal_has_gos_words(text: str, words: str) -> None:
    """The fragment is left out unless it is at fault, and our own words have no part of a password."""
    with pytest.raises(UrlSyntaxError) as caught:
        read_url(text)
    assert go_words(text, caught.value) == words
    assert words.endswith(f": {caught.value.go_text}")
    assert "%zz" not in caught.value.why


@pytest.mark.parametrize("text", ["r.example/a#%zz", "r.example/%zz#f", "r.example\x01/a", "x[::1]/a"])
def test_what_go_refuses_is_no_registry(text: str) -> None:
    """Also for a fault in the fragment, of which nothing else is looked at."""
    with pytest.raises(UrlSyntaxError):
        split_registry_url(text)
    assert split_registry_url("r.example:5/a%20b?q#f") == ("r.example:5", "r.example", "5", "/a b")
