"""The explanation for people, and as a document."""

from __future__ import annotations

import time

import pytest

from keyferry.errors import (
    KeyferryError,
    PluginExitError,
    PluginNotFoundError,
    PluginProtocolError,
    PolicyError,
)
from keyferry.explain.causes import explain
from keyferry.explain.cures import plugin_command
from keyferry.explain.document import credentials_document, explanation_document
from keyferry.explain.explanation import Facts, clock_text
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


def shown(answer: Answer, *, is_wide: bool = False, **facts: object) -> str:
    return render(explain(Facts(answer=answer, **facts)), is_wide=is_wide)  # type: ignore[arg-type] # by name


def found() -> Answer:
    return providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN}))).lookup("reg.io/a:v1")


def test_the_verdict_comes_first_then_what_to_do() -> None:
    text = shown(found(), command="keyferry explain reg.io/a:v1")
    assert titles(text) == [
        "✓ a credential is found: user 'user' of provider p",
        "→ to check whether reg.io accepts it:",
        "-o wide shows how it was found",
    ]
    assert "    keyferry explain reg.io/a:v1 --check-registry" in text.splitlines()
    assert "hidden-password" not in text


def test_the_wide_form_has_every_stage_in_the_order_things_happen() -> None:
    text = shown(found(), where=("providers: here",), is_wide=True)
    assert titles(text)[1:] == [
        "WHAT A KUBELET THAT READS THESE FILES NOW DOES",
        "IMAGE",
        "SOURCES",
        "PROVIDERS",
        "AUTH KEYS FOUND",
        "CREDENTIALS, IN TRIAL ORDER",
    ]
    assert "hidden-password" not in text


def test_the_nearest_pattern_is_the_cause_and_the_others_are_one_line() -> None:
    answer = providers(
        provider("far", ["quay.io"], answering({})),
        provider("further", ["ghcr.io"], answering({})),
        provider("path", ["reg.io:5000/b"], answering({})),
        provider("port", ["gcr.io", "reg.io"], answering({})),
    ).lookup("reg.io:5000/a/x")
    lines = shown(answer, config={"path": "/etc/providers.yaml"}).splitlines()
    told = "it has no port, and the image has port 5000"
    assert lines[0] == f"✗ no credential is found: pattern 'reg.io' of provider 'port' nearly matches: {told}"
    cure = next(at for at, line in enumerate(lines) if line.startswith("→ "))
    assert "matchImages of provider 'port' in /etc/providers.yaml" in lines[cure]
    assert lines[cure + 1] == '    - "reg.io:5000"'
    assert "! 3 providers are for other images" in lines
    assert "reg.io:5000/b" not in "".join(lines)


def test_at_most_three_notes_are_shown_and_the_others_are_counted() -> None:
    notes = tuple(f"note {number}" for number in range(5))
    lines = shown(found(), notes=notes).splitlines()
    assert [line for line in lines if line.startswith("! ")] == ["! note 0", "! note 1", "! note 2"]
    assert lines[-1] == "-o wide shows how it was found, and 2 more notes"
    assert "! note 4" in shown(found(), notes=notes, is_wide=True).splitlines()


def test_many_patterns_are_shown_nearest_first_if_that_is_asked_for() -> None:
    patterns = [*(f"reg.io:{port}" for port in range(5000, 5010)), "reg.io/b"]
    answer = providers(provider("p", patterns, answering({}))).lookup("reg.io/a")
    lines = shown(answer, is_wide=True).splitlines()
    listed = [line.strip() for line in lines if line.startswith("      'reg.io")]
    assert len(listed) == len(patterns)
    assert listed[0].startswith("'reg.io/b'")


def test_a_failure_is_told_with_the_plugins_last_words() -> None:
    plugin = failing(lambda: PluginExitError("p", 3, stderr_tail="no such account"))
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a")
    first = "✗ no credential is found: plugin 'p' fails: no such account (exit status 3)"
    assert titles(shown(answer))[0] == first
    told = "failed: plugin 'p': exited with status 3; stderr: no such account"
    assert told in shown(answer, is_wide=True)


def test_control_characters_from_outside_do_not_reach_the_terminal() -> None:
    plugin = answering({"reg.io": ("evil\x1b[2J\u202euser", "x")})
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a")
    for is_wide in (False, True):
        text = shown(answer, notes=("a\x1bb",), command="a\x1bb", is_wide=is_wide)
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_documents_mask_passwords_unless_asked() -> None:
    answer = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN}))).lookup("reg.io/a")
    assert "hidden-password" not in str(credentials_document(answer))
    assert "hidden-password" in str(credentials_document(answer, reveal=True))


def test_the_verdict_the_cause_and_the_cure_are_fields_and_no_password_is() -> None:
    node = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN})))
    document = explanation_document(explain(Facts(answer=node.lookup("reg.io/a"))))
    assert document["kind"] == "ImageExplanation"
    assert document["verdict"] == {
        "about": "credential",
        "outcome": "yes",
        "case": "found",
        "text": "a credential is found: user 'user' of provider p",
    }
    assert (document["cause"], document["cure"]) == ("", [])
    assert "hidden-password" not in str(document)
    document = explanation_document(explain(Facts(answer=node.lookup("reg.io:5000/a"))))
    assert str(document["cause"]).startswith("pattern 'reg.io' of provider 'p' nearly matches: ")
    assert document["cure"] == [
        {
            "text": "add this to matchImages of provider 'p', then restart the kubelet",
            "lines": ['- "reg.io:5000"'],
        }
    ]


TRACE = "keyferry plugin trace 'a bin/p' reg.io/a --config c.yaml -o text"


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (PluginExitError("p", 3), TRACE),
        (PluginProtocolError("p", "not JSON"), TRACE),
        (PluginNotFoundError("p", "missing"), "keyferry lint c.yaml --bin-dir 'a bin'"),
        (PolicyError("p", "denied"), ""),
    ],
)
def test_the_command_fits_the_failure(error: KeyferryError, command: str) -> None:
    assert plugin_command(error, "p", "reg.io/a", "c.yaml", "a bin") == command
    assert plugin_command(error, "p", "reg.io/a", "c.yaml", "") == ""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "23:45:00"), (600, "23:55:00"), (1200, "2026-11-20 00:05:00"), (-86400, "2026-11-18 23:45:00")],
)
def test_an_instant_of_another_day_has_its_date(seconds: int, shown: str) -> None:
    now = time.mktime((2026, 11, 19, 23, 45, 0, 0, 0, -1))
    assert clock_text(now + seconds, now) == shown
