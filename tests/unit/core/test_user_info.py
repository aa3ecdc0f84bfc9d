"""User info in URLs is hidden, whatever the URL is like, and the values of a query where that is asked for."""

from __future__ import annotations

import pytest

from keyferry._core.user_info import hide_in_text, hide_in_url, hide_user_info
from keyferry.errors import ClusterAuthError

URLS = [
    pytest.param("", "", id="empty"),
    pytest.param("@", "***@", id="nothing around the sign"),
    pytest.param("http://h", "http://h", id="no user info"),
    pytest.param("http://u:p@h:1", "http://***@h:1", id="user and password"),
    pytest.param("https://token@h/x", "https://***@h/x", id="a user alone may be a token"),
    pytest.param("http://:p@h", "http://***@h", id="a password alone"),
    pytest.param("http://@h", "http://***@h", id="empty user info"),
    pytest.param("http://u:p@w@h", "http://***@h", id="a password with a sign"),
    pytest.param("http://u:p/w@h", "http://***@h", id="a password with a slash"),
    pytest.param("http://u:p?w#x@h/y", "http://***@h/y", id="a password with the start of a query"),
    pytest.param("http://u:p://w@h", "http://***@h", id="a password like a URL"),
    pytest.param("http://u:p\nw@h", "http://***@h", id="a password with a line break"),
    pytest.param("http://u:p@h/x?a=b#c", "http://***@h/x?a=b#c", id="path, query and fragment stay"),
    pytest.param("http://h/?to=a@b", "http://***@b", id="a query that could be a password"),
    pytest.param("http://u:p@[::1]:8080/x", "http://***@[::1]:8080/x", id="IPv6"),
    pytest.param("http://u:p@[fe80::1%25eth0]", "http://***@[fe80::1%25eth0]", id="IPv6 with a zone"),
    pytest.param("u:p@h", "***@h", id="no scheme"),
    pytest.param("u:p/w@h:1", "***@h:1", id="no scheme, a password with a slash"),
    pytest.param("pass word://x@h", "***@h", id="what is no scheme may be a password"),
    pytest.param("git+ssh://u@h", "git+ssh://***@h", id="a scheme with a sign"),
    pytest.param("reg.io:5000/img@sha256:abc", "reg.io:5000/img@sha256:abc", id="a digest"),
    pytest.param("u:p@reg.io/img@sha256:abc", "***@reg.io/img@sha256:abc", id="a digest and a password"),
    pytest.param("reg.io/img@sha512:abc", "reg.io/img@sha512:abc", id="another digest"),
]

SENTENCES = [
    pytest.param("no URL: me@example.org", "no URL: me@example.org", id="an address is none"),
    pytest.param("https://u:p@h: refused", "https://***@h: refused", id="one"),
    pytest.param("'http://u:p@h' and 'http://v:q@i'", "'http://***@h' and 'http://***@i'", id="two"),
    pytest.param("http://u:p@w@h", "http://***@h", id="a password with a sign"),
    pytest.param("http://h/x of me@example.org", "http://h/x of me@example.org", id="after the path"),
    pytest.param(r'"http://u:p\"w@h"', '"http://***@h"', id="a quoted quotation mark"),
    pytest.param("https://h/?a=b: refused", "https://h/?a=***: refused", id="a query"),
    pytest.param("'https://h?a=b&c=d', no", "'https://h?a=***&c=***', no", id="a quoted query"),
    pytest.param(r'"https://h/?a=b\"c" no', '"https://h/?a=***" no', id="a quotation mark in a query"),
    pytest.param("https://u:p@h/?a=b.", "https://***@h/?a=***.", id="user info and a query"),
    pytest.param("is it https://h/x?", "is it https://h/x?", id="a question"),
    pytest.param("see https://h/x#part: no", "see https://h/x#part: no", id="a fragment is a place"),
]

QUERIES = [
    pytest.param("https://h/x", "https://h/x", id="no query"),
    pytest.param("https://h/?access_token=s3", "https://h/?access_token=***", id="a token"),
    pytest.param(
        "https://h?a=1&b=&c&d=2", "https://h?a=***&***&***&d=***", id="what has no value may be the secret"
    ),
    pytest.param("https://h/?dG9rZW4==", "https://h/?***", id="padding is no value"),
    pytest.param("https://h/?", "https://h/?", id="empty"),
    pytest.param("https://h/?a=b#c", "https://h/?a=***", id="a fragment after a query"),
    pytest.param("https://h/#access_token=s3", "https://h/#***", id="a fragment with a value"),
    pytest.param("https://h/#part", "https://h/#part", id="a fragment"),
    pytest.param("https://u:p@h/?a=b", "https://***@h/?a=***", id="user info, too"),
    pytest.param("u:p@h?a=b", "***@h?a=***", id="no scheme"),
]


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_user_info_is_hidden(url: str, shown: str) -> None:
    assert hide_user_info(url) == shown


@pytest.mark.parametrize(("text", "shown"), SENTENCES)
def test_user_info_is_hidden_in_a_sentence(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown


@pytest.mark.parametrize(("url", "shown"), QUERIES)
def test_values_of_a_query_are_hidden(url: str, shown: str) -> None:
    """The error hides them by itself, so that nobody who raises one can forget to."""
    assert hide_in_url(url) == shown
    assert ClusterAuthError(url, "no").server == shown


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_an_error_about_a_cluster_hides_user_info(url: str, shown: str) -> None:
    error = ClusterAuthError(url, "no")
    assert error.server == hide_in_url(shown)
    assert error.args[0] == hide_in_url(shown)
