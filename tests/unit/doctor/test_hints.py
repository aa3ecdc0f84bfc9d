"""The commands that lines propose."""

from __future__ import annotations

from keyferry.doctor.hints import Hints

HINTS = Hints(shared=("--config", "my file"), others=("--root", "/r"))


def test_options_are_repeated_and_quoted() -> None:
    assert HINTS.doctor("--online") == "keyferry doctor --config 'my file' --root /r --online"
    assert HINTS.doctor(is_root=True) == "sudo keyferry doctor --config 'my file' --root /r"
    assert HINTS.about_image("explain", "reg.io/a") == "keyferry explain reg.io/a --config 'my file'"
    assert HINTS.lint("/c", "/b") == "keyferry lint /c --bin-dir /b"
    assert HINTS.lint("/c") == "keyferry lint /c"
