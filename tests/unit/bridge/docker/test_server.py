"""The spellings of a server that docker's tools use."""

from __future__ import annotations

import pytest

from keyferry.bridge.docker_login import Server, parse_server

HUB = Server(hosts=("docker.io",))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        # docker, buildkit, oras, crane, stargz, soci; podman; other names of the same
        ("https://index.docker.io/v1/", HUB),
        ("index.docker.io/v1/", HUB),
        ("docker.io", HUB),
        ("https://registry-1.docker.io", HUB),
        ("registry-1.docker.io:443", HUB),
        ("index.docker.io/library/alpine", Server(hosts=("docker.io",), path="library/alpine")),
        ("Reg.IO", Server(hosts=("reg.io",))),
        ("https://reg.io/", Server(hosts=("reg.io",))),
        ("https://reg.io/v2/", Server(hosts=("reg.io",))),
        ("https://reg.io/v2/team/app", Server(hosts=("reg.io",), path="team/app")),
        # crane, with a credsStore: the repository first, then the host
        ("reg.io/team/app", Server(hosts=("reg.io",), path="team/app")),
        # nerdctl
        ("reg.io:443", Server(hosts=("reg.io:443", "reg.io"))),
        ("https://reg.io:443", Server(hosts=("reg.io:443", "reg.io"))),
        ("http://reg.io:80", Server(hosts=("reg.io:80", "reg.io"))),
        ("http://reg.io:443", Server(hosts=("reg.io:443",))),
        ("https://reg.io:80", Server(hosts=("reg.io:80",))),
        ("127.0.0.1:5000", Server(hosts=("127.0.0.1:5000",))),
        ("localhost", Server(hosts=("localhost",))),
        ("https://[::1]:5000/v2/", Server(hosts=("[::1]:5000",))),
        ("[::1]", Server(hosts=("[::1]",))),
        ("reg.io?x#y", Server(hosts=("reg.io",))),
        ("docker.io:5000", Server(hosts=("docker.io:5000",))),
    ],
)
def test_a_server_is_the_registry_that_images_name(url: str, expected: Server) -> None:
    assert parse_server(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("", "https://", "/", ":5000", "reg.io:", "reg.io:x", "reg.io:123456", "ftp://reg.io", "unix:///x"),
        *(
            "user@reg.io",
            "https://u:p@reg.io",
            "reg.io\nhost=evil.io",
            "reg.io\r",
            "a b",
            "r\u00e9g.io",
            "reg.io/\x00",
        ),
    ],
)
def test_what_names_no_registry(url: str) -> None:
    assert parse_server(url) is None


def test_what_is_longer_than_any_name_is_no_registry() -> None:
    host = "a" * 1016 + ".example"
    assert parse_server(host) == Server(hosts=(host,))
    assert parse_server(f"a{host}") is None
