"""The current context, found without a YAML reader: the same as one finds, or unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from keyferry_plugins.google.cache import _from_yaml, current_context, default_kubeconfig


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("current-context: demo\n", "demo"),
        ("kind: Config\ncurrent-context:   gke_p_zone_c  # mine\nusers: []\n", "gke_p_zone_c"),
        ("current-context: 'it''s'\n", "it's"),
        ('"current-context": "demo" # x\n', "demo"),
        ("current-context: a:b/c#d\n", "a:b/c#d"),
        ("current-context: ''\n", ""),
        ('current-context: ""\n', ""),
        ("current-context:\n", ""),
        ("current-context: null\n", ""),
        ("current-context:\nkind: Config\n", ""),
        ("kind: Config\n", ""),
        ("", ""),
        ("users:\n- user:\n    current-context: no\n", ""),
        ("# current-context: no\n---\ncurrent-context: yes-this\n---\ncurrent-context: no\n", "yes-this"),
        ("kind: Config\n---\ncurrent-context: second\n", ""),
        ("\ufeffcurrent-context: demo\r\n", "demo"),
        ('{"current-context": "demo"}', "demo"),
        ('{"kind": "Config"}', ""),
        ('{"current-context": null}', ""),
    ],
)
def test_the_current_context_is_found(tmp_path: Path, text: str, context: str) -> None:
    """As it is commonly written, and where there is none."""
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    assert current_context({"KUBECONFIG": str(path)}) == context


@pytest.mark.parametrize(
    "text",
    [
        "current-context: &a demo\n",
        '{"current-context": false}',
        "current-context: *a\n",
        "current-context: !!str demo\n",
        "current-context: |\n  demo\n",
        "current-context:\n  demo\n",
        "current-context: demo\n  more\n",
        "current-context: a\ncurrent-context: b\n",
        'current-context: "a\\u0062"\n',
        "current-context: 'open\n",
        "current-context: 'a'b'\n",
        "{current-context: demo}\n",
        '{"current-context": 5}',
        "\tcurrent-context: demo\n",
        "current-context: a: b\n",
        "current-context: {a: b}\n",
    ],
)
def test_what_is_not_plain_counts_as_unreadable(tmp_path: Path, text: str) -> None:
    """That costs the cache, and no more."""
    path = tmp_path / "config"
    path.write_text(text)
    assert current_context({"KUBECONFIG": str(path)}) is None


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30))
def test_no_context_is_misread(value: str) -> None:
    """What a YAML writer writes is read as a YAML reader reads it, or not at all."""
    text = yaml.safe_dump({"kind": "Config", "current-context": value}, allow_unicode=True, width=10_000)
    found = _from_yaml(text)
    assert found is None or found == value


def test_the_first_context_of_several_files_counts(tmp_path: Path) -> None:
    """Files that are not there do not matter; one that cannot be read does."""
    (tmp_path / "a").write_text("kind: Config\n")
    (tmp_path / "b").write_text("current-context: two\n")
    (tmp_path / "c").write_text("current-context: three\n")
    paths = [str(tmp_path / name) for name in ("none", "a", "b", "c")]
    assert current_context({"KUBECONFIG": ":".join(paths)}) == "two"
    assert default_kubeconfig({"KUBECONFIG": ":".join(paths)}) == paths[1]
    assert default_kubeconfig({"KUBECONFIG": f"/none/1::{paths[0]}"}) == paths[0]
    (tmp_path / "d").mkdir()
    assert current_context({"KUBECONFIG": f"{paths[2]}:{tmp_path / 'd'}"}) is None


def test_without_a_variable_the_home_counts(tmp_path: Path) -> None:
    """Whether there is a file or not."""
    assert default_kubeconfig({"HOME": str(tmp_path)}) == str(tmp_path / ".kube" / "config")
    assert current_context({"HOME": str(tmp_path)}) == ""
