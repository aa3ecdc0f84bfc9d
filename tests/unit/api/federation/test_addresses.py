"""URLs made of what a file says, and names of registries."""

from __future__ import annotations

import pytest

from keyferry.api.federation.templates import TemplateError, build_url, host_template, is_host_port, is_plain

GOOD = ["r.io", "registry.example.com:5000", "127.0.0.1:443", "localhost", "a-b.c", "x:1", "x:65535"]
BAD = [
    "", ":", ":5000", "r.io:", "r.io:0", "r.io:65536", "r.io:5000000", "R.io", "r.io.", ".r.io", "r..io", "-r.io",
    "r-.io", "r.io/x", "r.io?x", "r.io#x", "u@r.io", "r.io:5000@x", "r.io:x", "*.io", "r_.io", "r.io ", "r.i\u043e",
    "[::1]", "https://r.io", "r.io\\x", "r.io\n", "a" * 64, ".".join(["a" * 60] * 5), "r.io:\u0663",
]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_a_host_may_have_a_port(text: str) -> None:
    assert is_host_port(text)


@pytest.mark.parametrize("text", BAD)
def test_nothing_else_is_a_host(text: str) -> None:
    assert not is_host_port(text)


@pytest.mark.parametrize(
    ("url", "values", "expected"),
    [
        ("https://r.io", {}, "https://r.io"),
        ("https://${host}/a", {"host": "r.io:5000"}, "https://r.io:5000/a"),
        ("https://${org}.r.io/a", {"org": "team"}, "https://team.r.io/a"),
        ("https://r.io/${a}/x", {"a": "b/c d?e#f"}, "https://r.io/b%2Fc%20d%3Fe%23f/x"),
        ("https://r.io/${+a}", {"a": "b/c d"}, "https://r.io/b/c%20d"),
    ],
)
def test_values_are_escaped_where_they_stand(url: str, values: dict[str, str], expected: str) -> None:
    assert build_url(url, values) == expected


@pytest.mark.parametrize(
    ("url", "value"),
    [
        *(("https://${x}/token", value) for value in BAD),
        ("https://r.io${x}/token", ".evil.com:1/"),
        ("https://r.io/${x}", ""),
        ("https://r.io/${x}", ".."),
        ("https://r.io/${+x}", "a/../b"),
        ("https://r.io/${+x}", "/a"),
        ("https://r.io/${+x}", "a//b"),
        ("https://r.io/${x}", "a\nb"),
        ("https://r.io/a?x=${x}", "y"),
        ("https://r.io/a#${x}", "y"),
        ("https://r.io/../${x}", "y"),
        ("https://r.io/%2e%2e/${x}", "y"),
        ("https://r.io?${x}", "y"),
        ("https://user@r.io/${x}", "y"),
        ("http://r.io/${x}", "y"),
        ("HTTPS://r.io/${x}", "y"),
        ("//r.io/${x}", "y"),
        ("", "y"),
    ],
)
def test_a_value_cannot_leave_its_place(url: str, value: str) -> None:
    with pytest.raises(TemplateError):
        build_url(url, {"x": value})


def test_the_host_is_what_stands_before_the_path() -> None:
    assert host_template("https://${a}.b:1/c") == "${a}.b:1"
    assert host_template("https://x") == "x"


@pytest.mark.parametrize("text", ["a\nb", "\x00", "\x7f", "\x85", "\ud800"])
def test_control_characters_are_not_plain(text: str) -> None:
    assert not is_plain(text)
    assert is_plain("é ~")


@pytest.mark.parametrize("url", ["http://r.io/x", "r.io", "HTTPS://r.io", ""])
def test_only_a_url_of_https_has_a_host(url: str) -> None:
    with pytest.raises(TemplateError, match="expected an https:// URL"):
        host_template(url)
