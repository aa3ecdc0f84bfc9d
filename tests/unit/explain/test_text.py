"""The explanation for people."""

from __future__ import annotations

import pytest

from keyferry.errors import PluginExitError
from keyferry.explain.explanation import Explanation
from keyferry.explain.text import render
from keyferry.images.answer import Answer
from support.function_plugins import answering, failing, provider, providers

LOGIN = ("user", "hidden-password")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no sentence is folded."""
    monkeypatch.setenv("COLUMNS", "1000")


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith(" ")]


def found() -> Answer:
    return providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN}))).lookup("reg.io/a:v1")


def test_the_verdict_comes_first_and_how_it_was_found_last() -> None:
    text = render(
        Explanation(found(), where=("providers: here",), command="keyferry explain reg.io/a:v1"),
    )
    assert titles(text) == [
        "✓ a credential is found: user 'user' of provider p",
        "WHAT TO DO",
        "WHAT THE KUBELET DOES",
        "HOW IT WAS FOUND",
    ]
    assert "      keyferry explain reg.io/a:v1 --check-registry" in text.splitlines()
    assert "hidden-password" not in text


def test_the_wide_form_has_every_stage_in_the_order_things_happen() -> None:
    text = render(Explanation(found(), where=("providers: here",)), is_wide=True)
    assert titles(text)[1:] == [
        "WHAT THE KUBELET DOES",
        "IMAGE",
        "SOURCES",
        "PROVIDERS",
        "AUTH KEYS FOUND",
        "CREDENTIALS, IN TRIAL ORDER",
    ]
    assert "hidden-password" not in text


def test_the_nearest_pattern_is_the_cause_and_others_follow() -> None:
    answer = providers(
        provider("far", ["quay.io"], answering({})),
        provider("further", ["ghcr.io"], answering({})),
        provider("path", ["reg.io:5000/b"], answering({})),
        provider("port", ["gcr.io", "reg.io"], answering({})),
    ).lookup("reg.io:5000/a/x")
    lines = render(Explanation(answer, config={"path": "/etc/providers.yaml"})).splitlines()
    assert lines[0] == (
        "✗ no credential is found: no provider, pull secret or docker config matches reg.io:5000/a/x"
    )
    cause = lines[lines.index("LIKELY CAUSE") + 1]
    told = "it has no port, and the image has port 5000"
    assert cause == f"  pattern 'reg.io' of provider 'port' nearly matches: {told}"
    cure = lines.index("WHAT TO DO") + 1
    assert "matchImages of provider 'port' in /etc/providers.yaml" in lines[cure]
    assert lines[cure + 1] == '      - "reg.io:5000"'
    near = lines.index("NEARLY RIGHT") + 1
    told = "the image's path '/a/x' does not begin with '/b'; 'reg.io:5000/a/' would match"
    assert lines[near] == f"  ✗ pattern 'reg.io:5000/b' of provider 'path': {told}"
    assert lines[near + 1] == "  - 2 providers are for other hosts"
    assert "BEWARE" not in lines  # what it would say is the cause


def test_many_patterns_are_shown_nearest_first_if_that_is_asked_for() -> None:
    patterns = [*(f"reg.io:{port}" for port in range(5000, 5010)), "reg.io/b"]
    answer = providers(provider("p", patterns, answering({}))).lookup("reg.io/a")
    lines = render(Explanation(answer), is_wide=True).splitlines()
    shown = [line.strip() for line in lines if line.startswith("      'reg.io")]
    assert len(shown) == len(patterns)
    assert shown[0].startswith("'reg.io/b'")


def test_a_failure_is_told_with_the_plugins_last_words() -> None:
    plugin = failing(lambda: PluginExitError("p", 3, stderr_tail="no such account"))
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a")
    text = render(Explanation(answer))
    assert titles(text)[0] == "✗ no credential is found: provider 'p' failed"
    assert "  plugin 'p': exited with status 3; stderr: no such account" in text.splitlines()
    assert "makes one anonymous attempt" in text
    told = "failed: plugin 'p': exited with status 3; stderr: no such account"
    assert told in render(Explanation(answer), is_wide=True)


def test_control_characters_from_outside_do_not_reach_the_terminal() -> None:
    plugin = answering({"reg.io": ("evil\x1b[2J\u202euser", "x")})
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a")
    for is_wide in (False, True):
        text = render(Explanation(answer, notes=("a\x1bb",), command="a\x1bb"), is_wide=is_wide)
        assert "\x1b" not in text
        assert "\u202e" not in text
