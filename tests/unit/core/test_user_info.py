"""User info in URLs is hidden, whatever the URL is like, and nothing else is."""

import pytest

from keyferry._core.user_info import hide_in_text, hide_user_info
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
]


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_user_info_is_hidden(url: str, shown: str) -> None:
    assert hide_user_info(url) == shown


@pytest.mark.parametrize(("text", "shown"), SENTENCES)
def test_user_info_is_hidden_in_a_sentence(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_an_error_about_a_cluster_hides_the_same(url: str, shown: str) -> None:
    """The error hides it by itself, so that nobody who raises one can forget to."""
    error = ClusterAuthError(url, "no")
    assert error.server == shown
    assert error.args[0] == shown
