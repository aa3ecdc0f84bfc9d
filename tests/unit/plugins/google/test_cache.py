"""The file of keyferry-gke's cache."""

from __future__ import annotations

from keyferry_plugins.google.cache import format_indented


def test_documents_are_laid_out_as_go_does_it() -> None:
    """Four blanks for each level, and its escapes."""
    assert format_indented({"a": {"b": "<&>"}, "c": {}}) == (
        '{\n    "a": {\n        "b": "\\u003c\\u0026\\u003e"\n    },\n    "c": {}\n}'
    )
