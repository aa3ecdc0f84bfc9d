"""Which registry an image is pulled from, ours and upstream's way, its mirrors and challenges, and upstream's waits."""

from __future__ import annotations

import pytest

from keyferry._net.challenge import ChallengeError
from keyferry_plugins.acr import PROVIDER_BACKOFF
from keyferry_plugins.azure.registry import (
    apply_mirror,
    find_login_server,
    find_login_server_compat,
    parse_mirrors,
    read_bearer,
)

STACK = ".azurecr.my.cloud"
TABLE = [
    ("invalidImage", ""),
    ("docker.io/library/busybox:latest", ""),
    ("foo.azurecr.io/bar/image:version", "foo.azurecr.io"),
    ("foo.azurecr.cn/bar/image:version", "foo.azurecr.cn"),
    ("foo.azurecr.de/bar/image:version", "foo.azurecr.de"),
    ("foo.azurecr.us/bar/image:version", "foo.azurecr.us"),
    ("foo.azurecr.my.cloud/bar/image:version", "foo.azurecr.my.cloud"),
    ("foo.azurecr.us/foo.azurecr.io/bar/image", "foo.azurecr.us"),
    ("foo.azurecr.io.example/bar/image", ""),
    ("docker/foo.azurecr.io/bar/image", ""),
    ("foo.azurecr.io", "foo.azurecr.io"),
    ("foo.azurecr.io.azurecr.cn", ""),
    ("foo-azurecr-io.azurecr.cn", ""),
]
PORTS = [
    ("443", True),
    ("00443", True),
    ("0", False),
    ("65536", False),
    ("\u00b2", False),
    (5000 * "9", False),
]


@pytest.mark.parametrize(("image", "server"), TABLE)
def test_both_ways_agree_where_the_suffix_is_another(image: str, server: str) -> None:
    """The recorded cases of upstream, in a private cloud."""
    assert find_login_server(image, STACK) == server
    assert find_login_server_compat(image, STACK) == server


@pytest.mark.parametrize(("port", "is_one"), PORTS)
def test_a_port_is_a_number_of_a_port(port: str, is_one: bool) -> None:
    assert find_login_server(f"foo.azurecr.io:{port}/a", STACK) == (
        f"foo.azurecr.io:{port}" if is_one else ""
    )


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("my-reg.azurecr.io/x", "my-reg.azurecr.io", "my-reg.azurecr.io"),
        ("reg.eastus.geo.azurecr.io/x", "reg.eastus.geo.azurecr.io", "reg.eastus.geo.azurecr.io"),
        ("reg.azurecr.io:443/x", "reg.azurecr.io:443", "reg.azurecr.io"),
        ("reg.azurecr.io.example/x", "", "reg.azurecr.io"),
        ("docker/reg.azurecr.io/x", "", ""),
        ("notazurecr.io/x", "", ""),
        ("my-reg.azurecr.cn/x", "", ""),
        ("azurecr.io/x", "", ""),
        (".azurecr.io/x", "", ""),
        ("-a.azurecr.io/x", "", ""),
        ("a..azurecr.io/x", "", ""),
        ("reg.azurecr.io:0/x", "", "reg.azurecr.io"),
        ("reg.azurecr.io:x/x", "", "reg.azurecr.io"),
        ("u@reg.azurecr.io/x", "", ""),
        ("r\u00e9g.azurecr.io/x", "", ""),
        ("REG.AZURECR.IO/x", "REG.AZURECR.IO", ""),
        ("evil.example#.azurecr.io/x", "", ""),
        ("evil.example/x.azurecr.io/app", "", ""),
        ("evil.example:443/x.azurecr.io/app", "", ""),
        ("my-reg.azurecr.us:443/x.azurecr.io/app", "", ""),
        ("reg.azurecr.io./x", "", "reg.azurecr.io"),
    ],
)
def test_in_the_public_cloud_the_host_has_to_be_a_host(image: str, ours: str, theirs: str) -> None:
    """Ours judges what stands before the first slash, all of it; upstream's way looks for the suffix anywhere.

    What upstream finds and is no registry of Azure's counts in neither: a token would go to somebody else.
    """
    assert find_login_server(image, "azurecr.io") == ours
    assert find_login_server_compat(image, "azurecr.io") == theirs


def test_without_a_suffix_only_the_known_zones_count() -> None:
    """An empty suffix does not match everything."""
    for find in (find_login_server, find_login_server_compat):
        assert find("evil.example/x", "") == ""
        assert find("foo.azurecr.io/x", "") == "foo.azurecr.io"
    assert find_login_server("evil.example/x", ".") == ""


@pytest.mark.parametrize(
    ("text", "mirrors", "refused"),
    [
        ("", {}, ()),
        ("aaa:bbb", {"aaa": "bbb"}, ()),
        ("aaa:bbb,ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa: bbb, ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa,b:c:d,:e,f:,g:h", {"g": "h"}, ("aaa", "b:c:d", ":e", "f:")),
    ],
)
def test_pairs_are_read_and_others_passed_over(
    text: str, mirrors: dict[str, str], refused: tuple[str, ...]
) -> None:
    """Blanks do not count."""
    assert parse_mirrors(text) == (mirrors, refused)


def test_the_source_is_replaced_by_the_target() -> None:
    """Once, at the beginning."""
    found = apply_mirror({"mcr.microsoft.com": "abc.azurecr.io"}, "mcr.microsoft.com/bar/mcr.microsoft.com")
    assert found == ("abc.azurecr.io/bar/mcr.microsoft.com", "mcr.microsoft.com")


MIRRORS = {"a.io": "x.azurecr.io", "a.io/team": "y.azurecr.io/team", "a.io/te": "z.azurecr.io"}


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("a.io/other", "x.azurecr.io/other", "x.azurecr.io/other"),
        ("a.io/team/app", "y.azurecr.io/team/app", "x.azurecr.io/team/app"),
        ("a.io/team", "y.azurecr.io/team", "x.azurecr.io/team"),
        ("a.io/teams/app", "x.azurecr.io/teams/app", "x.azurecr.io/teams/app"),
        ("a.io.evil.example/app", "a.io.evil.example/app", "x.azurecr.io.evil.example/app"),
        ("b.io/app", "b.io/app", "b.io/app"),
    ],
)
def test_the_longest_source_wins_at_a_boundary(image: str, ours: str, theirs: str) -> None:
    """Whatever the order; upstream takes any beginning of the text, and here the first."""
    assert apply_mirror(MIRRORS, image)[0] == ours
    assert apply_mirror(dict(reversed(MIRRORS.items())), image)[0] == ours
    assert apply_mirror(MIRRORS, image, is_compat=True)[0] == theirs


GOOD = 'Bearer realm="https://r/t",service="r"'


@pytest.mark.parametrize(
    ("header", "parameters"),
    [
        (GOOD, {"realm": "https://r/t", "service": "r"}),
        ('bearer REALM = "https://r/t" ,  Service= "r"', {"realm": "https://r/t", "service": "r"}),
        ("BEARER realm=https://r/t, service=r", {"realm": "https://r/t", "service": "r"}),
        ('Bearer realm="a,b",service="r"', {"realm": "a,b", "service": "r"}),
        ('Bearer realm="a\\"b\\\\",service="s"', {"realm": 'a"b\\', "service": "s"}),
        (
            'Bearer realm="r",service="s",error="invalid_token"',
            {"realm": "r", "service": "s", "error": "invalid_token"},
        ),
        ('Bearer realm="r",service=s, Basic realm="x"', {"realm": "r", "service": "s"}),
        ('Bearer realm="r"service="s"', {"realm": "r", "service": "s"}),
    ],
)
def test_parameters_are_read(header: str, parameters: dict[str, str]) -> None:
    """In quotes or without, in any case, with blanks."""
    assert read_bearer([header]) == parameters
    assert read_bearer([header], is_compat=True) == parameters


@pytest.mark.parametrize(
    "header",
    [
        'Bearer realm="x',
        'Bearer realm="x\\',
        'Bearer realm="a",realm="b",service="s"',
        "Bearer",
        "Bearer ,,,",
        'Bearer realm="a",service=""',
    ],
)
def test_what_can_be_taken_in_two_ways_or_is_not_complete_is_refused(header: str) -> None:
    """An open quote, two values for one name, and none."""
    with pytest.raises(ChallengeError):
        read_bearer([header])


@pytest.mark.parametrize("header", ['Basic realm="x"', 'Basic realm="x', "", "Bearerrealm=x"])
def test_another_scheme_is_none_of_ours(header: str) -> None:
    """Even with a fault in it."""
    assert read_bearer([header, GOOD])["service"] == "r"
    with pytest.raises(ChallengeError, match="it has no Bearer challenges"):
        read_bearer([header])


@pytest.mark.parametrize(
    "headers",
    [[], ['Basic realm="x"'], [GOOD, GOOD], ['Bearer service="r"'], ['Bearer realm="https://r/t"']],
)
def test_there_is_one_challenge_with_realm_and_service(headers: list[str]) -> None:
    """Anything else is an error, whichever way."""
    for is_compat in (False, True):
        with pytest.raises(ChallengeError):
            read_bearer(headers, is_compat=is_compat)


def test_another_scheme_beside_it_disturbs_only_upstream() -> None:
    """Which wants one header."""
    headers = ['Basic realm="x"', GOOD]
    assert read_bearer(headers)["service"] == "r"
    with pytest.raises(ChallengeError):
        read_bearer(headers, is_compat=True)


def test_waits_grow_as_upstreams_do() -> None:
    """With --compat some 5, 15 and 35 seconds, and then no more attempts."""
    assert PROVIDER_BACKOFF.attempts == 4
    for number, full in ((1, 5.0), (2, 15.0), (3, 35.0)):
        assert all(0.8 * full <= PROVIDER_BACKOFF.delay(number) <= 1.2 * full for _ in range(50))
    assert PROVIDER_BACKOFF.delay(9) == 60.0
