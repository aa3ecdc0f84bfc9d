"""Which proxy a URL goes through, by the rules of Go's programs."""

from __future__ import annotations

import pytest

from keyferry._core.values import fields
from keyferry._net.errors import UrlError
from keyferry._net.proxy import authorization, choose_proxy, parse_origin

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
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_exceptions_are_gos(name: str, case: tuple[str, str, bool]) -> None:
    """Names with all below them, addresses, networks, ports; loopback always."""
    exceptions, url, uses_proxy = case
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
