"""The words of a command line mean to the quick reader what they mean to argparse, or nothing."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from io import StringIO
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.cli.frame.commands import COMMANDS
from keyferry.cli.frame.parser import Parser, make_parser
from keyferry.cli.frame.talk import add_talk_arguments
from keyferry.cli.frame.usual import Declarations, read_usual


def command_modules() -> dict[str, ModuleType]:
    """Every command and subcommand, by the words that call it."""
    found = {}
    for name, entry in COMMANDS.items():
        module = found[name] = import_module(entry.module)
        for below, command in getattr(module, "SUBCOMMANDS", {}).items():
            found[f"{name} {below}"] = import_module(command.module)
    return found


MODULES = command_modules()
# Beside the spellings of a command's own options.
WORDS = (
    *("a", "/version", "b.example/c:v1", "-", "", "--", "-h", "--help", "-o", "json", "-ojson", "--no-such"),
    *("10", "-1", "0", "1.34", "A=true", "a b", "-x y", "x=y", "linux/amd64", "raw", "list", "test", "bash"),
)


@cache
def parser_of(name: str) -> Parser:
    return make_parser(name, MODULES[name])


def read_with_argparse(name: str, words: list[str]) -> dict[str, object] | None:
    """What argparse makes of the words; None if it refuses them, or tells about them."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            return comparable(vars(parser_of(name).parse_args(words)))
    except SystemExit:
        return None


def read_as_usual(name: str, words: list[str]) -> dict[str, object] | None:
    declared = Declarations()
    MODULES[name].add_arguments(declared)
    add_talk_arguments(declared, MODULES[name])
    read = read_usual(declared, words)
    return None if read is None else comparable(vars(read))


def comparable(values: dict[str, object]) -> dict[str, object]:
    """The values, without the node, which is another object each time."""
    return {name: value for name, value in values.items() if name != "node"}


def lines_for(name: str) -> st.SearchStrategy[list[str]]:
    options = [spelling for action in parser_of(name)._actions for spelling in action.option_strings]
    word = st.sampled_from(WORDS) | st.sampled_from(options)
    valued = st.builds("{}={}".format, st.sampled_from(options), st.sampled_from(WORDS))
    return st.lists(word | valued, max_size=7)


@pytest.mark.parametrize("name", MODULES)
@given(data=st.data())
def test_what_the_quick_reader_takes_argparse_takes_alike(name: str, data: st.DataObject) -> None:
    """It may leave any line to argparse, and never reads one otherwise."""
    words = data.draw(lines_for(name))
    read = read_as_usual(name, words)
    assert read is None or read == read_with_argparse(name, words)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("get", "registry.example/app --config a --bin-dir b -o json --reveal --timeout 5"),
        ("get", "--config=a registry.example/app --secret x --secret=y"),
        ("explain", "registry.example/app --all-patterns"),
        ("can-pull", "registry.example/app"),
        ("lint", ""),
        ("lint", "--bin-dir b one.yaml two.yaml"),
        ("kube", "raw /version --context prod"),
        ("kube raw", "/version --trust"),
        ("kube token", "--reveal"),
        ("records", "list"),
        ("plugin", "test ./plugin --image registry.example/app"),
        ("completion", "bash"),
    ],
)
def test_a_usual_line_needs_no_argparse(name: str, line: str) -> None:
    """What people type every day is read by the quick reader, and as argparse reads it."""
    read = read_as_usual(name, line.split())
    assert read is not None
    assert read == read_with_argparse(name, line.split())


@pytest.mark.parametrize(
    "line", ["--help", "", "a b", "--no-such", "a --output nonsense", "a --timeout never", "-ojson a"]
)
def test_the_unusual_is_for_argparse(line: str) -> None:
    """Help, mistakes and short forms are left to argparse."""
    assert read_as_usual("get", line.split()) is None
