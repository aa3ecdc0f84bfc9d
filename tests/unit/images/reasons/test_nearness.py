"""What nearly matches an image, and what is for another host."""

from __future__ import annotations

import pytest

from keyferry.images.keyring import Source, SourceKind
from keyferry.images.match import explain_match
from keyferry.images.reasons.nearness import MissKind, find_misses, find_near_miss
from support.function_plugins import answering, provider, providers

ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
OWNER = Source(kind=SourceKind.PROVIDER, name="p")


@pytest.mark.parametrize(
    ("pattern", "name", "kind", "wanted"),
    [
        ("reg.io", "reg.io:5000/a", MissKind.PORT, "reg.io:5000"),
        ("reg.io:443", "reg.io/a", MissKind.PORT, "reg.io"),
        ("*.reg.io:1/a", "x.reg.io:2/a/b", MissKind.PORT, "*.reg.io:2/a"),
        ("reg.io/team", "reg.io/other/app", MissKind.PATH, "reg.io/other/"),
        ("reg.io/team", "reg.io/app", MissKind.PATH, "reg.io/app"),
        ("reg.io/team/*", "reg.io/team/app", MissKind.PATH, "reg.io/team/"),
        ("docker.io/busybox", "docker.io/library/busybox", MissKind.PATH, "docker.io/library/busybox"),
        ("docker.io/busybox", "docker.io/library/redis", MissKind.PATH, "docker.io/library/"),
        ("reg.io/a", "reg.io:5000/b/c", MissKind.PORT_AND_PATH, "reg.io:5000/b/"),
        ("Reg.io", "reg.io/a", MissKind.LETTER_CASE, "reg.io"),
        ("index.docker.io", "docker.io/library/a", MissKind.DOCKER_HUB, "docker.io"),
        ("registry-1.docker.io", "docker.io/library/a", MissKind.DOCKER_HUB, "docker.io"),
        ("*.reg.io", "a.b.reg.io/x", MissKind.LABEL_COUNT, "*.b.reg.io"),
        (
            "*.amazonaws.com",
            "1.dkr.ecr.eu-west-1.amazonaws.com/x",
            MissKind.LABEL_COUNT,
            "*.dkr.ecr.*.amazonaws.com",
        ),
        ("reg.io/*", "reg.io/x", MissKind.PATH, "reg.io"),
        ("*.reg.io", "reg.io/x", MissKind.LABEL_COUNT, "reg.io"),
        ("reg.io", "eu.reg.io/x", MissKind.LABEL_COUNT, "eu.reg.io"),
        ("*.*.reg.io", "a.b.c.reg.io/x", MissKind.LABEL_COUNT, "*.*.c.reg.io"),
        ("amazonaws.com", f"{ECR}/a", MissKind.LABEL_COUNT, ECR),
        ("reg.io:port", "reg.io/x", MissKind.UNPARSABLE, "reg.io"),
        (
            "*.dkr.ecr.us-east-1.amazonaws.com",
            f"{ECR}/a",
            MissKind.LABEL,
            "*.dkr.ecr.eu-west-1.amazonaws.com",
        ),
        ("registry.exmaple", "registry.example/a", MissKind.LABEL, "registry.example"),
        ("registri.example", "registry.example/a", MissKind.LABEL, "registry.example"),
        ("*.reg.io/team", "a.b.reg.io/team/x", MissKind.LABEL_COUNT, "*.b.reg.io/team"),
        ("*.reg.io/team", "a.b.reg.io/other/x", MissKind.LABEL_COUNT, "*.b.reg.io/other/"),
        ("*.reg.io/team", "reg.io/team/x", MissKind.LABEL_COUNT, "reg.io/team"),
        ("reg.io/team/", "www.reg.io:5000/team/a", MissKind.LABEL_COUNT, "www.reg.io:5000/team/"),
        ("Reg.io/team", "reg.io/team/a", MissKind.LETTER_CASE, "reg.io/team"),
        ("index.docker.io/team/", "docker.io/team/a", MissKind.DOCKER_HUB, "docker.io/team/"),
        ("reg.io:port/team", "reg.io/team/a", MissKind.UNPARSABLE, "reg.io/team"),
        ("registri.example/a/", "registry.example/a/b", MissKind.LABEL, "registry.example/a/"),
        ("reg.io/*/a", "reg.io/team/a", MissKind.PATH, "reg.io/team/a"),
        ("reg.io/*/a", "reg.io/team/a/b", MissKind.PATH, "reg.io/team/a/"),
        ("reg.io/*/a/*", "reg.io/team/a/b/c", MissKind.PATH, "reg.io/team/a/"),
        ("reg.io/*/*", "reg.io/team/a", MissKind.PATH, "reg.io"),
        ("reg.io/team*", "reg.io/team-a/b", MissKind.PATH, "reg.io/team"),
        ("[2001:db8::1]:5000/*", "[2001:db8::1]:5000/a", MissKind.PATH, "[2001:db8::1]:5000"),
        ("reg.io/other/*", "reg.io/team/a", MissKind.PATH, "reg.io/team/"),
        ("reg.io/team/one", "reg.io/team/two/app", MissKind.PATH, "reg.io/team/two/"),
        ("reg.io/team/one", "reg.io/app", MissKind.PATH, "reg.io/app"),
        ("**.reg.io", "a.b.reg.io/x", MissKind.LABEL_COUNT, "*.b.reg.io"),
        ("*.*.reg.io", "a.reg.io/x", MissKind.LABEL_COUNT, "*.reg.io"),
        ("*.*.reg.io", "reg.io/x", MissKind.LABEL_COUNT, "reg.io"),
        ("*.*.*", "reg.io/x", MissKind.OTHER_HOST, ""),
        ("*.dkr.ecr.amazonaws.com", f"{ECR}/app", MissKind.LABEL_COUNT, "*.dkr.ecr.*.amazonaws.com"),
        ("*.dkr.ecr.amazonaws.com/a/", f"{ECR}/a/b", MissKind.LABEL_COUNT, "*.dkr.ecr.*.amazonaws.com/a/"),
        (
            "123456789012.dkr.ecr.amazonaws.com",
            f"{ECR}/app",
            MissKind.LABEL_COUNT,
            "123456789012.dkr.ecr.*.amazonaws.com",
        ),
        ("1.dkr.ecr.amazonaws.com", f"{ECR}/app", MissKind.OTHER_HOST, ""),
        ("*.dkr.ecr.notamazonaws.com", f"{ECR}/app", MissKind.OTHER_HOST, ""),
        ("*gcr.io", "eu.gcr.io/app", MissKind.LABEL_COUNT, "*.gcr.io"),
        ("*.dkr.ecr.amazonaws.com", "sts.eu-west-1.amazonaws.com/app", MissKind.OTHER_HOST, ""),
        ("registry.example", "good.example/a", MissKind.OTHER_HOST, ""),
        ("gcr.io", "ecr.io/a", MissKind.OTHER_HOST, ""),
        ("quay.io", "reg.io:5000/a", MissKind.OTHER_HOST, ""),
        ("*.gcr.io", "registry.example/a", MissKind.OTHER_HOST, ""),
        ("a.b.c", "x.y.z/a", MissKind.OTHER_HOST, ""),
        ("reg.io:5000", "quay.io:6000/a", MissKind.OTHER_HOST, ""),
        ("bad:port", "quay.io/a", MissKind.OTHER_HOST, ""),
    ],
)
def test_the_difference_is_named_and_what_would_match_matches(
    pattern: str, name: str, kind: MissKind, wanted: str
) -> None:
    miss = find_near_miss(OWNER, pattern, name)
    assert (miss.kind, miss.wanted) == (kind, wanted)
    assert miss.is_near is (kind is not MissKind.OTHER_HOST)
    assert not wanted or explain_match(wanted, name).matched


@pytest.mark.parametrize(
    ("patterns", "name"),
    [
        pytest.param(["*.reg.io/team", "*.reg.io:5000"], "eu.reg.io/tea/a", id="a path before another port"),
        pytest.param(
            ["127.0.0.1/noport", "127.0.0.1:25555/noaud"], "127.0.0.1:25555/noport/app", id="no port"
        ),
        pytest.param(
            ["127.0.0.1", "127.0.0.1:25555/noaud"], "127.0.0.1:25555/noport/app", id="no port, no path"
        ),
        pytest.param(
            ["reg.io:1/team", "reg.io:2/team/b"], "reg.io:2/team/a", id="another port and a whole path"
        ),
        pytest.param(["reg.io/team", "reg.io"], "reg.io:5000/team/a", id="the longer path"),
        pytest.param(["reg.io:2/other", "reg.io/other"], "reg.io:2/team/a", id="one point before two"),
        pytest.param(["Reg.io/team", "reg.io/teams"], "reg.io/team/a", id="letters and a whole path"),
        pytest.param(["reg.io/a", "*.reg.io/b"], "reg.io/team/a", id="a path before a host and a path"),
        pytest.param(["reg.io/b", "registri.example"], "reg.io/a", id="the host before another host"),
    ],
)
def test_fewer_points_are_nearer_and_then_a_path_that_matches(patterns: list[str], name: str) -> None:
    """Whether one provider has both patterns, or two have one each."""
    for order in (patterns, patterns[::-1]):
        one = providers(provider("p", order, answering({})))
        assert find_misses(one.lookup(name))[0].pattern == patterns[0]
        two = providers(*(provider(pattern[:1], [pattern], answering({})) for pattern in order))
        assert [miss.pattern for miss in find_misses(two.lookup(name))] == patterns


@pytest.mark.parametrize(
    "pattern", ["reg.io", "eu.reg.io", "*.reg.io", "reg.io/b/c", "docker.io/a", "e.w.reg.io"]
)
@pytest.mark.parametrize("name", ["eu.west.reg.io:5000/a/b/c", "docker.io/library/a", "eu.reg.io/a/b"])
def test_what_would_match_has_no_more_stars_and_no_shorter_path(pattern: str, name: str) -> None:
    wanted = find_near_miss(OWNER, pattern, name).wanted
    assert wanted.count("*") <= pattern.count("*")
    assert not wanted or wanted.rstrip("/").count("/") >= pattern.count("/")


def test_of_several_paths_the_most_alike_is_the_nearest() -> None:
    patterns = ["reg.io/alpha", "reg.io/team", "reg.io/zeta"]
    answer = providers(
        provider("all", patterns, answering({})),
        provider("other", ["reg.io/tea-room/"], answering({})),
    ).lookup("reg.io/tea/a")
    assert [miss.pattern for miss in find_misses(answer)] == ["reg.io/team", "reg.io/tea-room/"]


@pytest.mark.parametrize(
    ("pattern", "name", "why"),
    [
        (
            "*.reg.io:1/team",
            "a.b.reg.io/other/x",
            "a * matches exactly one part of a host name, and 'a.b.reg.io' has 2 before 'reg.io'; it has port 1, and "
            "the image has none; the image's path '/other/x' does not begin with '/team'",
        ),
        (
            "**.reg.io",
            "a.b.reg.io/x",
            "a ** matches exactly one part of a host name, and 'a.b.reg.io' has 2 before 'reg.io'",
        ),
        (
            "*.*.reg.io",
            "reg.io/x",
            "it matches hosts that are 2 parts longer than 'reg.io', and not 'reg.io' itself",
        ),
        (
            "*.dkr.ecr.amazonaws.com",
            f"{ECR}/x",
            "its host has 5 parts, and those of ECR have 6; a * matches exactly one part",
        ),
        ("123456789012.dkr.ecr.amazonaws.com", f"{ECR}/x", "its host has 5 parts, and those of ECR have 6"),
    ],
)
def test_every_difference_is_told(pattern: str, name: str, why: str) -> None:
    assert find_near_miss(OWNER, pattern, name).why == why


def test_the_nearest_comes_first_and_each_provider_once() -> None:
    answer = providers(
        provider("far", ["quay.io", "ghcr.io"], answering({})),
        provider("near", ["quay.io", "eu.reg.io", "reg.io"], answering({})),
        provider("matches", ["reg.io:5000"], answering({"other.io": ("u", "p"), "third.io": ("u", "p")})),
    ).lookup("reg.io:5000/a")
    assert [(miss.source.name, miss.pattern, miss.kind) for miss in find_misses(answer)] == [
        ("near", "reg.io", MissKind.PORT),
        ("matches", "third.io", MissKind.STRAY_KEY),
        ("matches", "other.io", MissKind.STRAY_KEY),
        ("far", "quay.io", MissKind.OTHER_HOST),
    ]


def test_other_keys_of_a_source_that_has_the_right_one_are_no_misses() -> None:
    auth = {"reg.io": ("u", "p"), "other.io": ("u", "p")}
    assert find_misses(providers(provider("p", ["reg.io"], answering(auth))).lookup("reg.io/a")) == ()
