"""Paths of fields, for messages."""

from __future__ import annotations

from keyferry._core.paths import format_path


def test_paths_are_written_as_kubernetes_writes_them() -> None:
    assert format_path(("providers", 0, "matchImages", 1)) == "providers[0].matchImages[1]"
    assert format_path((0, "a")) == "[0].a"
    assert format_path(()) == ""
