"""Why: the reasons and traps that an answer carries, and what nearly matches."""

from __future__ import annotations

import pytest

from keyferry import Answer, Providers, PullSecret, Source, SourceKind
from keyferry.errors import PluginExitError
from keyferry.images.match import explain_match
from keyferry.images.provider.plugin import Plugin
from keyferry.images.reasons.nearness import MissKind, find_misses, find_near_miss
from support.function_plugins import answering, failing, provider, providers
from support.scripted import Clock, Scripted, response
from support.scripted import provider as scripted

LOGIN = ("u", "hidden-password")


def ask(
    image: str,
    patterns: list[str],
    plugin: Plugin | None = None,
    secrets: tuple[PullSecret, ...] = (),
) -> Answer:
    plugin = plugin or answering({"reg.io": LOGIN})
    return providers(provider("p", patterns, plugin)).lookup(image, pull_secrets=secrets)


def secret(auths: str) -> PullSecret:
    content = f'{{"auths": {auths}}}'.encode()
    return PullSecret(
        namespace="ns", name="s", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": content}
    )


def stages(answer: Answer, stage: str) -> list[str]:
    return [reason.outcome for reason in answer.reasons if reason.stage == stage]


def trap_names(answer: Answer) -> list[str]:
    return stages(answer, "trap")


def test_every_stage_has_its_reasons_in_order() -> None:
    answer = ask("reg.io/a:v1", ["reg.io"])
    assert [reason.stage for reason in answer.reasons] == [
        "image",
        "match",
        "provider",
        "key",
        "credential",
        "decision",
    ]
    assert "hidden-password" not in repr(answer.reasons) + repr(answer)


def test_a_run_and_then_a_cached_answer_are_told_apart() -> None:
    asked = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN})))
    assert stages(asked.lookup("reg.io/a"), "provider") == ["ran"]
    assert stages(asked.lookup("reg.io/a"), "provider") == ["cached"]


def test_the_time_left_is_that_of_the_lookup_by_its_own_clock() -> None:
    """Each answer says how long it was still kept when it was given, also if it is asked why much later."""
    clock = Clock()
    asked = Providers([scripted(Scripted(response(cache_seconds=600)), clock)], clock=clock)
    answers = [asked.lookup("reg.io/a")]
    assert expiry(answers[0]) == (600, "10 min")
    for _ in range(2):
        clock.step(3)
        answers.append(asked.lookup("reg.io/a"))
    clock.step(1000)
    assert [expiry(answer) for answer in answers] == [
        (600, "10 min"),
        (597, "9 min 57 s"),
        (594, "9 min 54 s"),
    ]


def expiry(answer: Answer) -> tuple[object, str]:
    """What an answer says of the time that it is still kept, as a fact and in words."""
    (reason,) = (reason for reason in answer.reasons if reason.stage == "provider")
    return reason.facts["expiresInSeconds"], reason.text.rpartition(" for ")[2]


def test_a_provider_that_does_not_match_says_which_rule_said_no() -> None:
    answer = ask("reg.io/a", ["other.io", "reg.io:5000", "reg.io/b", "a.reg.io"])
    (reason,) = (reason for reason in answer.reasons if reason.stage == "match")
    patterns = reason.facts["patterns"]
    assert isinstance(patterns, list)
    assert [fact["rule"] for fact in patterns] == ["label", "port", "path-prefix", "label-count"]


@pytest.mark.parametrize(
    ("plugin", "outcome"),
    [
        pytest.param(answering({"reg.io": LOGIN}), "credentials", id="credentials"),
        pytest.param(answering({}), "anonymous", id="nothing"),
        pytest.param(failing(lambda: PluginExitError("p", 1)), "anonymous-after-failure", id="failure"),
    ],
)
def test_the_decision_is_what_a_kubelet_would_do(plugin: Plugin, outcome: str) -> None:
    assert stages(ask("reg.io/a", ["reg.io"], plugin), "decision") == [outcome]


@pytest.mark.parametrize(
    ("image", "pattern", "trap"),
    [
        pytest.param("reg.io:5000/a", "reg.io", "port", id="image has a port"),
        pytest.param("reg.io/a", "reg.io:443", "port", id="pattern has a port"),
        pytest.param("reg.io/a", "reg.io/*", "path-wildcard", id="host/*"),
        pytest.param("reg.io/team/a", "reg.io/team/*", "path-wildcard", id="host/team/*"),
        pytest.param("busybox", "index.docker.io", "docker-hub", id="index.docker.io"),
        pytest.param("busybox", "docker.io/busybox", "docker-hub", id="library missing"),
        pytest.param("a.b.reg.io/x", "*.reg.io", "label-count", id="too few labels"),
        pytest.param("reg.io/a", "REG.io", "letter-case", id="upper case"),
        pytest.param("reg.io/a", "reg?.io", "query", id="question mark"),
        pytest.param("reg.io/a", "[0-9].io", "character-class", id="class"),
        pytest.param("reg.io/foobar", "reg.io/foo", "path-boundary", id="prefix inside a name"),
    ],
)
def test_a_trap_in_a_pattern_is_pointed_out(image: str, pattern: str, trap: str) -> None:
    assert trap in trap_names(ask(image, [pattern]))


@pytest.mark.parametrize(
    ("image", "pattern", "wanted"),
    [
        ("a.b.reg.io/team/x", "*.reg.io/team/", "'*.b.reg.io/team/' would match it"),
        ("reg.io/team/a", "reg.io/*/a", "'reg.io/team/a' matches this image"),
        ("[2001:db8::1]:5000/a", "[2001:db8::1]:5000/*", "'[2001:db8::1]:5000' matches this image"),
    ],
)
def test_what_to_write_instead_matches_no_more_than_was_meant(image: str, pattern: str, wanted: str) -> None:
    texts = [reason.text for reason in ask(image, [pattern]).reasons if reason.stage == "trap"]
    assert any(text.endswith(wanted) for text in texts)


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        ("reg.io/a", "reg.io"),
        ("reg.io/foo/bar", "reg.io/foo"),
        ("reg.io:5000/a", "reg.io:5000"),
        ("a.io/b", "c.io"),
    ],
)
def test_an_ordinary_answer_has_no_trap(image: str, pattern: str) -> None:
    login = answering({image.partition("/")[0]: LOGIN})
    assert trap_names(ask(image, [pattern], login)) == []


def test_keys_that_do_not_cover_the_image_are_a_trap() -> None:
    answer = ask("reg.io/a", ["reg.io"], answering({"other.io": LOGIN}))
    assert trap_names(answer) == ["stray-auth-keys"]
    assert stages(answer, "key") == ["no-match"]


def test_a_cached_empty_answer_is_a_trap() -> None:
    asked = providers(provider("p", ["reg.io"], answering({})))
    asked.lookup("reg.io/a")
    answer = asked.lookup("reg.io/a")
    assert trap_names(answer) == ["empty-answer"]
    assert "from its cache" in next(r.text for r in answer.reasons if r.stage == "trap")


def test_a_general_secret_before_a_specific_plugin_key_is_a_trap() -> None:
    answer = ask(
        "reg.io/team/app",
        ["reg.io"],
        answering({"reg.io/team": LOGIN}),
        (secret('{"*.io": {"username": "s", "password": "x"}}'),),
    )
    assert [credential.username for credential in answer.credentials] == ["s", "u"]
    assert "general-first" in trap_names(answer)


def test_the_hub_key_used_for_another_registry_is_a_trap() -> None:
    answer = ask(
        "localhost/x", ["reg.io"], secrets=(secret('{"https://index.docker.io/v1/": {"username": "hub"}}'),)
    )
    assert [credential.username for credential in answer.credentials] == ["hub"]
    assert trap_names(answer) == ["default-registry"]
    assert stages(answer, "key") == ["default-registry"]


def test_one_key_from_two_providers_is_tried_twice_and_said_so() -> None:
    both = providers(
        provider("one", ["reg.io"], answering({"reg.io": ("1", "x")})),
        provider("two", ["reg.io"], answering({"reg.io": ("2", "y")})),
    )
    answer = both.lookup("reg.io/a")
    assert [credential.username for credential in answer.credentials] == ["1", "2"]
    assert trap_names(answer) == ["same-key"]


def test_a_key_that_does_not_parse_is_dropped_and_said_so() -> None:
    answer = ask("reg.io/a", ["reg.io"], answering({"reg.io:x": LOGIN, "reg.io": LOGIN}))
    assert stages(answer, "key") == ["covers", "dropped"]


ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
ECR_CHINA = "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"
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
        ("*azurecr.io", "acme.azurecr.io/app", MissKind.LABEL_COUNT, "*.azurecr.io"),
        ("*pkg.dev", "europe-docker.pkg.dev/project/app", MissKind.LABEL_COUNT, "*-docker.pkg.dev"),
        (
            "*.dkr.ecr.amazonaws.com.cn",
            f"{ECR_CHINA}/app",
            MissKind.LABEL_COUNT,
            "*.dkr.ecr.*.amazonaws.com.cn",
        ),
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
