"""The explanation for people: the verdict first, then what to do; all stages only if that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Node, plain_pod, run_in_process
from support.kubernetes_api import pod, pull_secret

IMAGE = "reg.io/team/app:v1"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose provider has a login for the image's registry."""
    (tmp_path / "node").mkdir()
    return Node(tmp_path / "node").add("p", ["reg.io"])


def lines(node: Node, *words: str) -> list[str]:
    """Return the lines of the explanation, which are not folded; no password is in them."""
    done = run_in_process("explain", *words, *node.options())
    assert "pass-word" not in done.stdout + done.stderr
    return done.stdout.splitlines()


def titles(shown: list[str]) -> list[str]:
    return [line for line in shown if line and not line.startswith(" ")]


def test_the_verdict_comes_first_then_what_to_do(node: Node, tmp_path: Path) -> None:
    shown = lines(node, IMAGE, *plain_pod(tmp_path))
    assert titles(shown) == [
        "✓ a credential is found: user 'user' of provider p",
        "→ to check whether reg.io accepts it:",
        "-o wide shows how it was found",
    ]
    assert any(line.startswith(f"    keyferry explain {IMAGE} ") for line in shown)
    assert any(line.endswith(" --check-registry") for line in shown)


def test_the_wide_form_has_every_stage_in_the_order_things_happen(node: Node, tmp_path: Path) -> None:
    shown = lines(node, IMAGE, *plain_pod(tmp_path), "-o", "wide")
    assert [each for each in titles(shown) if each.isupper()] == [
        "WHAT A KUBELET THAT READS THESE FILES NOW DOES",
        "IMAGE",
        "SOURCES",
        "PROVIDERS",
        "AUTH KEYS FOUND",
        "CREDENTIALS, IN TRIAL ORDER",
    ]


def test_at_most_three_notes_are_shown_and_the_others_are_counted(node: Node, tmp_path: Path) -> None:
    """Here one for each secret that the pod does not list."""
    file = tmp_path / "pod.json"
    secrets = [pull_secret(f"unlisted-{number}") for number in range(5)]
    file.write_text("\n---\n".join(map(json.dumps, (pod(images=(IMAGE,)), *secrets))))
    shown = lines(node, "-f", str(file))
    assert len([line for line in shown if line.startswith("! ")]) == 3
    assert shown[-1].startswith("-o wide shows how it was found, and ")
    assert shown[-1].endswith(" more notes")
    wide = lines(node, "-f", str(file), "-o", "wide")
    assert len([line for line in wide if line.startswith("! ") and "unlisted" in line]) == 5


def test_many_patterns_are_shown_nearest_first_if_that_is_asked_for(tmp_path: Path) -> None:
    patterns = [*(f"reg.io:{port}" for port in range(5000, 5010)), "reg.io/b"]
    shown = lines(Node(tmp_path).add("p", patterns), "reg.io/a", *plain_pod(tmp_path), "-o", "wide")
    listed = [line.strip() for line in shown if line.startswith("      'reg.io")]
    assert len(listed) == len(patterns)
    assert listed[0].startswith("'reg.io/b'")


def test_the_wide_form_has_a_plugins_last_words(tmp_path: Path) -> None:
    node = Node(tmp_path).add("p", ["reg.io"], before="echo 'no such account' >&2; exit 3")
    shown = lines(node, IMAGE, *plain_pod(tmp_path), "-o", "wide")
    assert shown[0] == "✗ no credential is found: plugin 'p' fails: no such account (exit status 3)"
    assert any("failed: plugin 'p': exited with status 3; stderr: no such account" in line for line in shown)
