"""The parser of each command: its help, the options that all have, and words that are nearly right."""

from __future__ import annotations

import pytest

from keyferry.cli.main import main
from keyferry.cli.parser import did_you_mean, make_parser
from keyferry.cli.run import COMMANDS, load_command

WORDS: list[tuple[str, ...]] = [(name,) for name in COMMANDS]
WORDS += [(name, below) for name in COMMANDS for below in load_command(name).subcommands]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_command_has_both(words: tuple[str, ...]) -> None:
    parser = make_parser("keyferry", load_command(*words))
    assert {"-v", "--verbose", "--color"} <= parser._option_string_actions.keys()


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_begins_with_examples_and_ends_with_what_is_rarely_used(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of usage, the examples, the description, common options, advanced ones, and those of all commands."""
    assert main([*words, "--help"]) == 0
    usage, examples, *rest = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: keyferry {' '.join(words)} ")
    assert usage.endswith("[OPTIONS]")
    assert examples.startswith("examples:\n")
    heads = [part.partition("\n")[0] for part in rest]
    groups = [head for head in heads[: heads.index("options of every command:")] if head.endswith(":")]
    assert groups == sorted(groups, key=lambda head: head.startswith("advanced"))


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
