"""The explanation for people."""

from __future__ import annotations

from keyferry.errors import PluginExitError
from keyferry.explain.text import render
from support.function_plugins import answering, failing, provider, providers

LOGIN = ("user", "hidden-password")


def test_the_sections_come_in_the_order_things_happen() -> None:
    answer = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN}))).lookup("reg.io/a:v1")
    text = render(answer, where=("providers: here",))
    titles = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert titles == [
        "IMAGE",
        "SOURCES",
        "PROVIDERS",
        "AUTH KEYS FOUND",
        "CREDENTIALS, IN THE ORDER THEY ARE TRIED",
        "WHAT THE KUBELET DOES",
    ]
    assert "hidden-password" not in text


def test_many_patterns_are_cut_short_nearest_first() -> None:
    patterns = [*(f"reg.io:{port}" for port in range(5000, 5010)), "reg.io/b"]
    answer = providers(provider("p", patterns, answering({}))).lookup("reg.io/a")
    text = render(answer)
    assert "'reg.io/b'" in text
    assert "and 7 more, less similar" in text
    assert "less similar" not in render(answer, all_patterns=True)


def test_a_failure_is_told_with_the_plugins_last_words() -> None:
    plugin = failing(lambda: PluginExitError("p", 3, stderr_tail="no such account"))
    text = render(providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a"))
    assert "failed: plugin 'p': exited with status 3; stderr: no such account" in text
    assert "makes one anonymous attempt" in text


def test_control_characters_from_outside_do_not_reach_the_terminal() -> None:
    plugin = answering({"reg.io": ("evil\x1b[2J\u202euser", "x")})
    text = render(providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a"))
    assert "\x1b" not in text
    assert "\u202e" not in text
