"""URLs, hosts, queries and proxies, read as Go's programs read them."""

from __future__ import annotations

import pytest

from keyferry._core.values import fields
from keyferry._net.address import is_loopback_host
from keyferry._net.dates import parse_date
from keyferry._net.errors import UrlError
from keyferry._net.forms import (
    decode_percent,
    decode_query,
    encode_form,
    encode_form_text,
    encode_query,
)
from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry._net.proxy import authorization, choose_proxy, parse_origin
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
        "::", "1.2.3.4:80", "k/\x01", "http://k:bad", "http://k:1:2", "http://a b", "http://%41",
        "http://k/%zz",
    ),
    *(
        "http://[::1", "http://[1.2.3.4]", "http://x[::1]", "http://[::1]x", "http://[::1%25]",
        "http://[::1%41]",
    ),
    *("http://a^b@k", "http://a%zz@k", "http://k#%zz", "http://a\\b", "a:b:c/\x7f"),
]  # fmt: skip


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
        ("h", ("h", "")), ("h:1", ("h", "1")), ("h:", ("h", "")), ("[::1]", ("[::1]", "")),
        ("[::1]:1", ("::1", "1")), ("::1", ("::1", "")), ("a]b:5", ("a]b:5", "")), ("[a:5", ("[a:5", "")),
        ("a]:5", ("a]:5", "")), ("[[a]]:5", ("[[a]]:5", "")), ("", ("", "")),
    ],
)  # fmt: skip
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
        ("http://[::1]x", 'parse "http://[::1]x": invalid port "x" after host'),
        ("http://a b", 'parse "http://a b": invalid character " " in host name'),
        ("http://a%41", 'parse "http://a%41": invalid URL escape "%41"'),
        ("http://u<@h", 'parse "http://u<@h": net/url: invalid userinfo'),
        ("::", 'parse "::": missing protocol scheme'),
        ("a\nb", r'parse "a\nb": net/url: invalid control character in URL'),
        ("1:2", 'parse "1:2": first path segment in URL cannot contain colon'),
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


LOOPBACK = [
    "localhost", "LocalHost", "127.0.0.1", "127.255.255.255", "127.0.0.0", "::1", "0:0:0:0:0:0:0:1", "0::0001",
]  # fmt: skip


ELSEWHERE = [
    "", "127.", "127", "127.1", "127..1", "127..0.1", "127.0.0.1.", "127.0.0.0.1", "127.999.1.1", "127.0.0.256",
    "127.0.0.01", "127.0.0.0x1", "127.0.0.-1", "127.0.0.1 ", "127.0.0.\u0661", "127.0.0.\u00b2", "127.0.0.\udc80",
    "127.0.0.1.example", "128.0.0.1", "0.0.0.0", "2130706433", "0x7f.0.0.1", "localhost.", "localhost.example",
    "my-localhost", "[::1]", "::", "::2", "::1%lo", "1::", "::ffff:127.0.0.1", "64:ff9b::7f00:1", ":1", "localhost:80",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_known_as_written(host: str) -> None:
    """The name in any case, and every real address."""
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_nothing_else_is_loopback(host: str) -> None:
    """What only resembles such an address may be a name, and lead anywhere."""
    assert not is_loopback_host(host)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9750", ListenAddress(host="127.0.0.1", port=9750, is_loopback=True)),
        ("127.1.2.3:0", ListenAddress(host="127.1.2.3", port=0, is_loopback=True)),
        ("0.0.0.0:9750", ListenAddress(host="0.0.0.0", port=9750, is_loopback=False)),
        ("10.1.2.3:65535", ListenAddress(host="10.1.2.3", port=65535, is_loopback=False)),
        ("[::1]:9750", ListenAddress(host="::1", port=9750, is_loopback=True)),
        ("[::]:9750", ListenAddress(host="::", port=9750, is_loopback=False)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, expected: ListenAddress) -> None:
    assert parse_listen_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "9750", ":9750", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x"),
        *("127.0.0.1:٩", "localhost:9750", "node.example:9750", "::1:9750", "[127.0.0.1]:9750", "[::1]"),
        *("127.0.0.1:000080", "http://127.0.0.1:9750", " 127.0.0.1:9750", "127.1:9750", "[[::1]]:1"),
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    """Names too, since what they stand for may change."""
    assert parse_listen_address(text) is None


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=x+y%2Bz%26", {"a": "x y+z&"}),
        ("a=1&a=2&=3&&b", {"a": "1", "b": ""}),
        ("a=%FF%zz", {"a": "\ufffd%zz"}),
    ],
)
def test_a_query_is_read(query: str, fields: dict[str, str]) -> None:
    """Of a name that is repeated, the first counts."""
    assert decode_query(query) == fields


def test_an_endless_query_has_an_end() -> None:
    assert len(decode_query("&".join(f"a{number}=1" for number in range(1000)))) == 100


DECODED = {
    "plain": ("abc", "abc"),
    "upper": ("%2F%3A", "/:"),
    "lower": ("%2f%3a", "/:"),
    "utf-8": ("%C3%A4", "ä"),
    "plus-stays": ("a+b", "a+b"),
    "cut": ("a%", "a%"),
    "cut-more": ("a%4", "a%4"),
    "no-digits": ("%zz", "%zz"),
    "signs-are-no-digits": ("%+1%-1% 1", "%+1%-1% 1"),
    "percent": ("%2541", "%41"),
}


@pytest.mark.parametrize("case", DECODED.values(), ids=DECODED)
def test_escapes_are_undone_once(case: tuple[str, str]) -> None:
    """And what only looks like one is left."""
    text, expected = case
    assert decode_percent(text) == expected


def test_a_mapping_and_pairs_give_the_same() -> None:
    """In the order given."""
    assert (
        encode_query({"b": "1 2", "a": "&="})
        == encode_query([("b", "1 2"), ("a", "&=")])
        == "b=1%202&a=%26%3D"
    )
    assert encode_form({"b": "1 2+"}) == b"b=1+2%2B"


def test_one_text_of_a_form_has_no_mark_of_its_own() -> None:
    """So that a client's ID with a colon, and a secret of base64, arrive as they are."""
    assert encode_form_text("team:a b") == "team%3Aa+b"
    assert encode_form_text("+/=%&ä") == "%2B%2F%3D%25%26%C3%A4"


PARTS = {
    "plain": ("http://host", ("http", "host", 80, "/", "")),
    "tls": ("HTTPS://host", ("https", "host", 443, "/", "")),
    "port": ("http://host:8080/a/b?c=d", ("http", "host", 8080, "/a/b?c=d", "")),
    "empty-port": ("http://host:/", ("http", "host", 80, "/", "")),
    "query-alone": ("http://host?a=b", ("http", "host", 80, "/?a=b", "")),
    "slash-in-query": ("http://host?a=/b", ("http", "host", 80, "/?a=/b", "")),
    "fragment": ("http://host/a#b@c", ("http", "host", 80, "/a", "")),
    "user": ("http://jo:pw@host/", ("http", "host", 80, "/", "jo:pw")),
    "user-with-at": ("http://jo@x:pw@host/", ("http", "host", 80, "/", "jo@x:pw")),
    "ipv6": ("http://[::1]:81/", ("http", "::1", 81, "/", "")),
    "ipv6-plain": ("https://[fe80::1]", ("https", "fe80::1", 443, "/", "")),
    "at-in-path": ("http://host/a@b", ("http", "host", 80, "/a@b", "")),
    "highest-port": ("http://host:65535", ("http", "host", 65535, "/", "")),
}


@pytest.mark.parametrize("case", PARTS.values(), ids=PARTS)
def test_a_url_is_taken_apart(case: tuple[str, tuple[str, str, int, str, str]]) -> None:
    """Into what a connection needs."""
    url, parts = case
    assert tuple(fields(parse_origin(url)).values()) == parts


def test_what_is_shown_of_a_url_has_no_query_and_no_user() -> None:
    """And a port only where it is not the usual one."""
    assert str(parse_origin("https://jo:pw@host:443/a?b=c")) == "https://host/a"
    assert str(parse_origin("http://[::1]:8080/a?b=c")) == "http://[::1]:8080/a"


HTTPS = "https://api.example.com/"


# Environment, URL, and the proxy as it is shown.
CHOICES = {
    "none": ({}, HTTPS, ""),
    "upper": ({"HTTPS_PROXY": "http://p:1"}, HTTPS, "http://p:1"),
    "lower": ({"https_proxy": "http://p:1"}, HTTPS, "http://p:1"),
    "upper-first": ({"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:1"}, HTTPS, "http://p:1"),
    "empty": ({"HTTPS_PROXY": "", "https_proxy": "http://q:1"}, HTTPS, "http://q:1"),
    "other-scheme": ({"HTTP_PROXY": "http://p:1"}, HTTPS, ""),
    "all-proxy-is-not-gos": ({"ALL_PROXY": "http://p:1"}, HTTPS, ""),
    "no-scheme": ({"HTTPS_PROXY": "p:3128"}, HTTPS, "http://p:3128"),
    "path-is-dropped": ({"HTTPS_PROXY": "http://p:3128/x"}, HTTPS, "http://p:3128"),
    "cgi": ({"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}, "http://a.example/", ""),
    "cgi-lower": (
        {"HTTP_PROXY": "http://evil:1", "http_proxy": "http://p:1", "REQUEST_METHOD": "GET"},
        "http://a.example/",
        "http://p:1",
    ),
    "cgi-https": ({"HTTPS_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, HTTPS, "http://p:1"),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES)
def test_the_environment_names_the_proxy(case: tuple[dict[str, str], str, str]) -> None:
    """By the variable of the URL's scheme; what a web server's client sent is not taken for one."""
    environ, url, shown = case
    proxy = choose_proxy(parse_origin(url), environ)
    assert ("" if proxy is None else str(proxy)) == shown


# NO_PROXY, URL, and whether the proxy is used all the same.
EXCEPTIONS = {
    "nothing": ("", "http://a.example/", True),
    "star": ("*", "http://a.example/", False),
    "star-among-others": ("x,*", "http://a.example/", False),
    "name": ("a.example", "http://a.example/", False),
    "name-case": ("A.Example", "http://a.EXAMPLE/", False),
    "name-and-below": ("example", "http://a.example/", False),
    "not-a-mere-suffix": ("example", "http://an-example/", True),
    "dot-is-below-only": (".a.example", "http://a.example/", True),
    "dot": (".example", "http://a.example/", False),
    "star-dot": ("*.example", "http://a.example/", False),
    "star-dot-is-below-only": ("*.example", "http://example/", True),
    "star-without-dot": ("*example", "http://a.example/", True),
    "blanks": (" x , a.example ", "http://a.example/", False),
    "empty-entries": (",,", "http://a.example/", True),
    "port": ("a.example:80", "http://a.example/", False),
    "other-port": ("a.example:81", "http://a.example/", True),
    "port-below": ("example:80", "http://a.example/", False),
    "port-alone": (":80", "http://a.example/", True),
    "trailing-dot": ("a.example", "http://a.example./", False),
    "address": ("10.0.0.1", "http://10.0.0.1/", False),
    "other-address": ("10.0.0.1", "http://10.0.0.2/", True),
    "address-port": ("10.0.0.1:81", "http://10.0.0.1:81/", False),
    "network": ("10.0.0.0/8", "http://10.9.9.9/", False),
    "network-with-host-bits": ("10.1.2.3/8", "http://10.9.9.9/", False),
    "network-not-for-names": ("10.0.0.0/8", "http://ten.example/", True),
    "outside": ("10.0.0.0/8", "http://11.0.0.1/", True),
    "broken-network": ("10.0.0.0/99", "http://10.0.0.1/", True),
    "ipv6": ("fd00::1", "http://[fd00::1]/", False),
    "ipv6-other-spelling": ("fd00:0::1", "http://[fd00::1]/", False),
    "ipv6-brackets": ("[fd00::1]:80", "http://[fd00::1]/", False),
    "ipv6-network": ("fd00::/8", "http://[fd00:ec2::254]/", False),
    "mapped": ("10.0.0.0/8", "http://[::ffff:10.1.1.1]/", False),
    "digit-first": ("1password.example", "http://1password.example/", False),
    "localhost": ("", "http://localhost/", False),
    "loopback": ("", "http://127.8.9.1/", False),
    "loopback-6": ("", "http://[::1]/", False),
    "loopback-6-long": ("", "http://[0:0:0:0:0:0:0:1]/", False),
    "loopback-mapped": ("", "http://[::ffff:127.0.0.1]/", False),
    "no-loopback": ("", "http://128.0.0.1/", True),
    "localhost-of-somebody": ("", "http://localhost.example/", True),
}


@pytest.mark.parametrize("case", EXCEPTIONS.values(), ids=EXCEPTIONS)
def test_exceptions_are_gos(case: tuple[str, str, bool]) -> None:
    """Names with all below them, addresses, networks, ports; loopback always."""
    exceptions, url, uses_proxy = case
    for name in ("NO_PROXY", "no_proxy"):
        proxy = choose_proxy(parse_origin(url), {"HTTP_PROXY": "http://p:1", name: exceptions})
        assert (proxy is not None) is uses_proxy


def test_the_login_of_a_proxy_is_decoded() -> None:
    """What is escaped in the URL is not in the header; a user alone has an empty password."""
    assert authorization(parse_origin("http://p:1")) == []
    assert authorization(parse_origin("http://u%40x:p%2Fw@p:1")) == [
        ("Proxy-Authorization", "Basic dUB4OnAvdw==")
    ]
    assert authorization(parse_origin("http://u@p:1")) == [("Proxy-Authorization", "Basic dTo=")]


def test_a_proxy_of_another_kind_is_refused_by_name() -> None:
    """SOCKS is not spoken; that is said, and not taken for no proxy."""
    with pytest.raises(UrlError, match="the proxy in HTTPS_PROXY: is not a URL of the form"):
        choose_proxy(parse_origin(HTTPS), {"HTTPS_PROXY": "socks5://p:1080"})
    assert choose_proxy(parse_origin("http://localhost/"), {"HTTP_PROXY": "socks5://p:1080"}) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1709251199),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253402300799),
    ],
)
def test_a_date_is_read(text: str, seconds: int) -> None:
    assert parse_date(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "30", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun, 06 Nov 1994 08:4937 GMT ", "Sun, \u0660\u0666 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT" * 1000,
    ],
)  # fmt: skip
def test_other_text_is_no_date(text: str) -> None:
    assert parse_date(text) is None
