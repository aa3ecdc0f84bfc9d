"""Which requests come from the page itself or from the address bar, by their headers."""

from __future__ import annotations

import pytest

from keyferry.agent.page.access import cookie_of, own_hosts, refuse_headers

HOSTS = own_hosts("127.0.0.1", 7475)


def status(**headers: str) -> int:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    found = refuse_headers(given, HOSTS)
    return 200 if found is None else found.status


@pytest.mark.parametrize("host", ["127.0.0.1:7475", "localhost:7475", "LocalHost:7475"])
def test_its_own_names_are_let_in(host: str) -> None:
    assert status(host=host) == 200
    assert status(host=host, origin=f"http://{host}", sec_fetch_site="same-origin") == 200
    assert status(host=host, sec_fetch_site="none") == 200


@pytest.mark.parametrize(
    "host",
    [
        *("", "127.0.0.1", "localhost", "127.0.0.1:80", "evil.example:7475", "127.0.0.1.evil.example:7475"),
        *("127.0.0.1:7475, 127.0.0.1:7475", "127.0.0.2:7475", "[::1]:7475", "127.0.0.1:7475@evil.example"),
    ],
)
def test_any_other_name_is_not(host: str) -> None:
    """A name that leads here by a change of its address has the same origin as its host."""
    assert status(host=host, origin=f"http://{host}") == 421


def test_a_request_without_a_host_is_refused() -> None:
    assert status() == 421


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://127.0.0.1:7475",
        "http://127.0.0.1:7476",
        "http://localhost:7475",
        "http://evil.example",
    ],
)
def test_another_origin_is_refused(origin: str) -> None:
    assert status(host="127.0.0.1:7475", origin=origin) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Same-Origin", "none, none"])
def test_a_request_that_another_page_made_is_refused(site: str) -> None:
    """Another port of this machine is the same site."""
    assert status(host="127.0.0.1:7475", sec_fetch_site=site) == 403


def test_hosts_follow_the_address() -> None:
    assert own_hosts("::1", 1) == {"[::1]:1", "localhost:1"}
    assert own_hosts("127.0.0.1", 80) == {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"}


@pytest.mark.parametrize(
    ("cookie", "value"),
    [("a=1", "1"), ("b=2; a=1", "1"), ("a=1;a=2", "1"), ("aa=1", ""), ("", ""), ("a", ""), ("a=x=y", "x=y")],
)
def test_a_cookie_is_found_by_its_name(cookie: str, value: str) -> None:
    assert cookie_of({b"cookie": cookie.encode()}, "a") == value
