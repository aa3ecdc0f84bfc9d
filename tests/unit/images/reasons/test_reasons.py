"""Why: the reasons and traps that an answer carries."""

from __future__ import annotations

import pytest

from keyferry._core.values import replace
from keyferry.errors import PluginExitError
from keyferry.images.answer import Answer
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.lookup import Providers
from keyferry.images.provider.plugin import Plugin
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


def test_no_reason_holds_the_password() -> None:
    answer = ask("reg.io/team/app", ["reg.io/te"])
    assert "hidden-password" not in repr(answer.reasons)
    assert "hidden-password" not in repr(answer)


def test_a_run_and_then_a_cached_answer_are_told_apart() -> None:
    asked = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN})))
    assert stages(asked.lookup("reg.io/a"), "provider") == ["ran"]
    assert stages(asked.lookup("reg.io/a"), "provider") == ["cached"]


def test_the_time_left_is_that_of_the_lookup_by_its_own_clock() -> None:
    """Each answer says how long it was still kept when it was given, also if it is asked why much later."""
    clock = Clock()
    asked = Providers([scripted(Scripted(response(cache_seconds=600)), clock)], clock=clock)
    answers = []
    for _ in range(4):
        answers.append(asked.lookup("reg.io/a"))
        assert expiry(answers[-1])[0] == 600 - 3 * (len(answers) - 1)
        clock.step(3)
    clock.step(1000)
    again = [answers[0], answers[3], *(replace(answer) for answer in answers[1:3])]
    assert [expiry(answer) for answer in again] == [
        (600, "10 min"),
        (591, "9 min 51 s"),
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
