"""Help and tables on a narrow terminal: nothing is cut or wrapped by the terminal but what people paste."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keyferry.cli.run import COMMANDS
from support.commands import Node, plain_pod, run_keyferry
from support.terminal import keyferry_on_terminal

NARROW = 60
# Lines of examples, and usage lines, whose parts argparse does not break.
PASTED = (
    "  keyferry ",
    "  sudo keyferry ",
    "  #!",
    "  exec ",
    "  KEYFERRY_",
    "  kubectl ",
    "  source ",
    "  crictl ",
    "  eval ",
)


def check_lines(text: str, *, but: tuple[str, ...] = ()) -> None:
    for line in text.split("\n"):
        is_word = len(line.split()) <= 1
        assert len(line) <= NARROW or is_word or line.startswith(but), line


@pytest.mark.parametrize(
    "words", [[], *([name] for name in COMMANDS), ["plugin", "try"], ["kube", "contexts"]], ids=" ".join
)
def test_help_is_folded_to_the_terminal(words: list[str]) -> None:
    narrow = keyferry_on_terminal(*words, "--help", columns=NARROW).screen
    check_lines(narrow, but=PASTED)
    wide = run_keyferry(*words, "--help").stdout
    # At the usual width, a word may be broken after a hyphen.
    whole = re.sub(r"-\n +(?=in\b)", "-", wide)
    assert sorted(narrow.split()) == sorted(whole.split())


def test_tables_become_paragraphs(tmp_path: Path) -> None:
    host = "a-long-name-of-a-registry.example"
    auth = f'{{"{host}": {{"username": "a-long-user-name", "password": "x"}}}}'
    node = Node(tmp_path).add("a-long-plugin-name", [host], auth)
    words = (f"{host}/app", *node.options(), *plain_pod(tmp_path))
    shown = keyferry_on_terminal("get", *words, columns=NARROW).screen
    check_lines(shown)
    assert "  SOURCE    provider a-long-plugin-name" in shown.split("\n")
    wide = keyferry_on_terminal("get", *words, columns=200).screen
    assert wide.split("\n")[0].split() == ["USERNAME", "PASSWORD", "KEY", "SOURCE"]
    (tmp_path / "no-hosts").mkdir()
    asked = keyferry_on_terminal(
        "can-pull",
        *words,
        "--hosts-dir",
        str(tmp_path / "no-hosts"),
        "--registry-timeout",
        "1",
        columns=NARROW,
    )
    assert "  REGISTRY RESPONSE" in asked.screen
