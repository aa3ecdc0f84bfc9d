"""Words that are nearly right."""

from __future__ import annotations

import pytest

from keyferry.cli.frame.near_misses import did_you_mean
from keyferry.cli.main import main


@pytest.mark.parametrize(
    ("word", "expected"),
    [("jsn", "; did you mean 'json'?"), ("JSON", "; did you mean 'json'?"), ("xyzzy", "")],
)
def test_only_a_close_word_is_suggested(word: str, expected: str) -> None:
    """Upper and lower case do not matter."""
    assert did_you_mean(word, ("table", "json", "yaml")) == expected


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["expain", "x"], "explain"),
        (["plugin", "trce"], "trace"),
        (["kube", "whami"], "whoami"),
        (["records", "lst"], "list"),
        (["get", "x", "--confg", "y"], "--config"),
        (["get", "x", "--confg=y"], "--config"),
        (["plugin", "test", "x", "--imge", "y"], "--image"),
        (["get", "x", "-o", "jsn"], "json"),
        (["get", "x", "--output=jsn"], "json"),
        (["records", "who", "x", "--policy", "AlwaysVerfy"], "AlwaysVerify"),
        (["plugin", "new", "x", "--kind", "clster"], "cluster"),
        (["plugin", "install", "erc", "--bin-dir", "."], "ecr"),
        (["completion", "bsh"], "bash"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_near_misses_are_suggested_everywhere(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands, subcommands, options and the values of options."""
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"did you mean {meant!r}?" in shown.err


@pytest.mark.parametrize("group", ["kube", "records", "plugin"])
def test_a_group_alone_prints_its_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``keyferry`` alone does: on standard output, with exit code 0."""
    assert main([group]) == 0
    alone = capsys.readouterr()
    assert main([group, "--help"]) == 0
    assert alone == capsys.readouterr()
    assert alone.out.startswith(f"usage: keyferry {group} ")
