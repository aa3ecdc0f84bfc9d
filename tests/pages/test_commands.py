"""Every command on a page exists: keyferry's own parser takes it, and make, pip and plugins know theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from keyferry.cli.flags import split_command
from keyferry.cli.parser import make_parser
from keyferry.cli.run import load_command
from support.pages import ROOT, Block, all_blocks, command_lines, inline_code, page_names, split_commands

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Programs of the image, not of the Python package; and names of other things that begin like a program's.
OF_THE_IMAGE = {"keyferry-probe", "keyferry-agent"}
IMAGE = re.compile(r"^(?:localhost|registry\.example)/keyferry:\S+$")
# A value that stands for the reader's own.
NO_VALUE = re.compile(r"\.\.\.|…|\[-|<")


def is_keyferry(words: list[str]) -> bool:
    return words[0] == "keyferry"


def keyferry_words(words: list[str]) -> list[str]:
    """The words after ``keyferry``, also of kubectl, in a container or a pod; nothing, if another program is run."""
    if is_keyferry(words):
        return ["/PATH" if word == "PATH" else word for word in words[1:]]
    if words[:2] == ["kubectl", "keyferry"]:
        return words[2:]
    for at, word in enumerate(words):
        if IMAGE.match(word) and words[0] == "podman":
            return words[at + 1 :]
        if word == "--" and words[at + 1 : at + 2] == ["keyferry"]:
            return words[at + 2 :]
    return []


def in_blocks() -> Iterator[tuple[str, list[str]]]:
    """Every command in a block, with its place: of shell, after a prompt, and of workflows."""
    for block in all_blocks():
        if block.language in ("sh", "console"):
            yield from ((block.place, words) for words in command_lines(block))
        if block.language == "yaml":
            steps = re.findall(r"^ *- run: (.*)$", block.text, re.MULTILINE)
            yield from ((block.place, words) for line in steps for words in split_commands(line))


def in_prose() -> Iterator[tuple[str, list[str]]]:
    """Every command between backticks, with its page."""
    for page in page_names():
        for text in inline_code(page):
            if re.match(r"(sudo )?(keyferry|make|pip|pipx)( |-\w)", text) and not NO_VALUE.search(text):
                yield from ((page, words) for words in split_commands(text))


def parse(words: list[str], *, whole: bool) -> None:
    """Let the command's own parser take the words; if they are not the whole command, some may be missing."""
    if (words or ["--help"])[0] in ("--help", "--version"):
        return
    path, rest = split_command(words)
    assert path, words
    command = load_command(*path)
    if command.subcommands:
        assert (rest, whole) == ([], False), words
        return
    if "--" in rest and command.takes_rest:
        del rest[rest.index("--") :]
    parser = make_parser(" ".join(("keyferry", *path)), command)
    if not whole:
        let_words_be_missing(parser)
    (parser.parse_intermixed_args if command.takes_options_between else parser.parse_args)(rest)


def let_words_be_missing(parser: ArgumentParser) -> None:
    for action in parser._actions:
        action.required = False
    for group in parser._mutually_exclusive_groups:
        group.required = False


def accepted(words: list[str], capsys: pytest.CaptureFixture[str], *, whole: bool) -> str:
    """What the parser says against the words, if anything."""
    try:
        parse(words, whole=whole)
    except SystemExit as left:
        return "" if left.code == 0 else capsys.readouterr().err
    return ""


def test_keyferrys_parser_takes_every_command_in_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    found = [(place, keyferry_words(words)) for place, words in in_blocks()]
    assert found
    wrong = {
        f"{place}: {' '.join(words)}": said
        for place, words in found
        if words and (said := accepted(words, capsys, whole=True))
    }
    assert wrong == {}


def test_keyferrys_parser_takes_what_the_prose_names(capsys: pytest.CaptureFixture[str]) -> None:
    """The prose may name a command without its arguments, or with those alone that it is about."""
    found = [(page, words) for page, words in in_prose() if is_keyferry(words)]
    assert found
    wrong = {
        f"{page}: {' '.join(words)}": said
        for page, words in found
        if (said := accepted(keyferry_words(words), capsys, whole=False))
    }
    assert wrong == {}


def test_a_wrong_command_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert accepted(["get"], capsys, whole=False) == ""
    for words in (["get"], ["get", "x", "--no-such"], ["agent", "status", "x"]):
        assert "keyferry" in accepted(words, capsys, whole=True), words
    assert "--no-such" in accepted(["get", "--no-such"], capsys, whole=False)
    shown = Block("a.md", 1, "console", "$ keyferry get x \\\n  --reveal\nshown\n$ ls\n")
    assert list(command_lines(shown)) == [["keyferry", "get", "x", "--reveal"], ["ls"]]
    quoted = Block("a.md", 1, "sh", "echo 'a\nmake b' # it's\nmake c\n")
    assert list(command_lines(quoted)) == [["echo", "a\nmake b"], ["make", "c"]]
    assert list(split_commands("sudo keyferry get x > y && A=1 make z # w")) == [
        ["keyferry", "get", "x"],
        ["make", "z"],
    ]


def test_every_target_of_make_and_its_variables_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
    used = set(re.findall(r"\$\((?:if |or )*(\w+)", MAKEFILE)) | {"PYTHON"}
    for place, words in (*in_blocks(), *in_prose()):
        if words[0] == "make":
            named = [word for word in words[1:] if "=" not in word]
            variables = {word.partition("=")[0] for word in words[1:] if "=" in word}
            assert set(named) <= targets, place
            assert variables <= used | {"CC"}, place


def test_every_program_of_keyferry_is_there() -> None:
    programs = {*PROJECT["scripts"], *OF_THE_IMAGE}
    for place, words in (*in_blocks(), *in_prose()):
        if words[0].startswith("keyferry-") and not words[0].endswith("-"):
            assert words[0] in programs or words[0].startswith("keyferry-shim"), place


@cache
def configured() -> list[tuple[str, list[str]]]:
    """The command lines of plugins in provider configs and kubeconfigs."""
    return [
        (block.place, words)
        for block in all_blocks()
        if block.language == "yaml"
        for words in plugins_in(block)
    ]


def plugins_in(block: Block) -> Iterator[list[str]]:
    for document in yaml.safe_load_all(block.text):
        if not isinstance(document, dict | list):
            continue
        entries = document if isinstance(document, list) else document.get("providers") or ()
        for entry in entries:
            if isinstance(entry, dict) and "matchImages" in entry:
                yield [entry["name"], *entry.get("args", ())]
        for user in document.get("users", ()) if isinstance(document, dict) else ():
            yield [user["user"]["exec"]["command"], *user["user"]["exec"].get("args", ())]


@pytest.mark.parametrize(("place", "words"), configured(), ids=[place for place, _ in configured()])
def test_a_plugin_takes_the_arguments_of_a_config(
    place: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plugin refuses its arguments with status 2, before it looks at the request, which is none here."""
    program, *arguments = words
    if program == "keyferry":
        assert accepted(arguments, capsys, whole=True) == ""
        return
    if program not in PROJECT["scripts"]:
        assert program == "ecr-credential-provider", place
        return
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        env={"PATH": os.environ["PATH"], "KUBERNETES_EXEC_INFO": "{"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert re.search("standard input is empty|KUBERNETES_EXEC_INFO cannot be read", done.stderr), done.stderr


def test_every_extra_is_there() -> None:
    extras = set(PROJECT["optional-dependencies"])
    for place, words in (*in_blocks(), *in_prose()):
        named = re.findall(r"\[(\w+)\]", " ".join(words)) if words[0] in ("pip", "pipx") else []
        assert set(named) <= extras, place


def test_every_block_that_installs_makes_an_environment_first() -> None:
    """Debian and others refuse ``pip install`` outside of one; the release check's step ``pages`` runs the blocks."""
    steps = (ROOT / "tools" / "release" / "installs.py").read_text(encoding="utf-8")
    found = [block for block in all_blocks() if block.language == "sh" and "pip install ." in block.text]
    assert {block.page for block in found} == set(re.findall(r"\"((?:README|docs/\w+)\.md)\"", steps))
    for block in found:
        programs = [" ".join(words) for words in command_lines(block)]
        made = programs.index("python3 -m venv ~/keyferry")
        first = next(at for at, line in enumerate(programs) if "pip install ." in line)
        assert made < first, block.place
        activated = ". ~/keyferry/bin/activate" in programs[made:first]
        assert activated or programs[first].startswith("~/keyferry/bin/pip "), block.place
