"""The pages of the docs for tests: their blocks, the commands in them, and machines on which these are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .commands import WIDTH
from .parts import need
from .plugins import write_executable

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# A page, or the part of a page, that a program writes; a part ends with a mark of its own.
_GENERATED = re.compile(
    r"<!-- (?:figures: )?written by `make \w+`[^>]*-->.*?(?:<!-- end of [^>]*-->|\Z)", re.DOTALL
)
# A part that a program writes between marks with its name.
_PART = re.compile(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?\n.*?^\1$", re.MULTILINE | re.DOTALL)
_OPERATORS = frozenset({"&&", "||", "|", ";", "&", "(", ")"})
# Runs files one after the other, as at a prompt, which takes await.
_PYTHON = """
import ast, asyncio, inspect, sys
names = {}
for path in sys.argv[1:]:
    code = compile(open(path).read(), path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ended = eval(code, names)
    if inspect.iscoroutine(ended):
        asyncio.run(ended)
"""
_APART = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# What may stand before a program's name.
_BEFORE_PROGRAM = frozenset({"sudo", "exec", "env", "!"})


class Block(NamedTuple):
    """A fenced block: its page, by its path in the tree, the line of its fence, its language, and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """The place, for messages and names of tests."""
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """The first line."""
        return self.text.partition("\n")[0]


@cache
def page_names() -> tuple[str, ...]:
    """Return the pages, by their paths in the tree; the changelog tells of the past, and its commands may be gone."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    return tuple(str(each.relative_to(ROOT)) for each in sorted(found) if each.name != "CHANGELOG.md")


@cache
def written_text(page: str) -> str:
    """Return what people wrote of a page: the parts that programs write are blank lines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return _GENERATED.sub(lambda found: "\n" * found[0].count("\n"), text)


@cache
def prose(page: str) -> str:
    """Return the sentences that people wrote: blocks, and what programs write, are blank lines, and code is empty."""
    text = written_text(page)
    for pattern in (_PART, _FENCE):
        text = pattern.sub(lambda found: "\n" * found[0].count("\n"), text)
    return re.sub(r"`[^`\n]+`", "``", text)


@cache
def blocks(page: str, language: str | None = None) -> tuple[Block, ...]:
    """Return the blocks of a page, or those in one language."""
    text = written_text(page)
    found = (
        Block(page, text.count("\n", 0, match.start()) + 1, match[2], textwrap.dedent(match[3]))
        for match in _FENCE.finditer(text)
    )
    return tuple(each for each in found if language in (None, each.language))


def all_blocks() -> Iterator[Block]:
    """Yield every block of every page."""
    for page in page_names():
        yield from blocks(page)


def inline_code(page: str) -> Iterator[str]:
    """Yield what stands between backticks in the prose of a page."""
    prose = _FENCE.sub("", written_text(page))
    for found in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose):
        yield " ".join(found.split())


def command_lines(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command in a block of shell, or after a prompt."""
    if block.language == "console":
        text = "\n".join(command for command, _ in prompts(block))
    else:
        text = _HERE_DOCUMENT.sub("", block.text)
    begun = ""
    for line in text.replace("\\\n", " ").splitlines():
        begun += f"{line}\n"
        try:
            yield from list(split_commands(begun))
        except ValueError:  # a quotation that goes on in the next line
            continue
        begun = ""
    assert not begun, f"{block.place}: {begun}"


def prompts(block: Block) -> list[tuple[str, str]]:
    """Return the commands after the prompts of a block, which may have several lines, each with what it prints."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)


def split_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, from the program's name on, without redirections and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _OPERATORS:
            words.append(word)
            continue
        yield from filter(None, [_from_program(words)])
        words = []


def _from_program(words: list[str]) -> list[str]:
    kept = [word for at, word in enumerate(words) if not _is_redirection(words, at)]
    while kept and (kept[0] in _BEFORE_PROGRAM or re.match(r"\w+=", kept[0])):
        del kept[0]
    return kept


def _is_redirection(words: list[str], at: int) -> bool:
    arrows = (">", ">>", "<", "<<", ">&")
    return words[at] in arrows or (at > 0 and words[at - 1] in arrows)


def is_shown(page: str, output: str) -> bool:
    """Return whether an output is what a page shows of it.

    White space counts as one blank; a line ``...`` of the page, or one at the end of a line, stands for any text.
    """
    parts = re.split(r"^\.\.\.$|\.\.\.$", page, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in parts)
    return re.fullmatch(pattern, " ".join(output.split()), re.DOTALL) is not None


def check_shown(page: Path, shown: str, output: str) -> None:
    """Fail unless an output is what *page* shows of it; ``make outputs`` writes it into the page instead.

    What a page shows with ``...`` is edited by hand.
    """
    if is_shown(shown, output):
        return
    if os.environ.get("WRITE_OUTPUTS") and "..." not in shown:
        text = page.read_text(encoding="utf-8")
        assert text.count(shown) == 1, f"{page} shows this more than once, or not so:\n{shown}"
        page.write_text(text.replace(shown, output), encoding="utf-8")
        return
    raise AssertionError(f"{page.name} shows:\n{shown}\n--- found:\n{output}")


def machine_without_kubelet() -> dict[str, str]:
    """Return the variables that every test has; a test beside this one may run a program that is called kubelet."""
    return {name: os.environ[name] for name in ("KEYFERRY_PROC", "KEYFERRY_HOST_ROOT")}


class Machine:
    """A folder in which the blocks of a page are run, with this installation's programs.

    *names* has the page's name for each of the test's own paths and addresses; they are replaced in what is run, and
    back again in what is printed. ``sudo`` runs its words. *mounts* are commands that put the paths of a real node
    into place: every script then runs in namespaces of its own, which needs root, and sees no other processes.
    """

    def __init__(
        self, folder: Path, names: Mapping[str, str] | None = None, *, mounts: str = "", **env: str
    ) -> None:
        self.folder = folder
        self.names = dict(names or {})
        self.mounts = mounts
        path = folder / ".path"
        path.mkdir()
        write_executable(path / "sudo", '#!/bin/sh\nexec "$@"\n')
        self.env = {
            "PATH": f"{path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "COLUMNS": WIDTH,
            "PYTHONUNBUFFERED": "1",  # lines in the order in which they are written, as on a terminal
            **machine_without_kubelet(),
            **env,
        }

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its first command that fails; what it prints has the page's names."""
        for own, name in self.names.items():
            script = script.replace(name, own)
        apart = [need("unshare"), *_APART] if self.mounts else []
        done = subprocess.run(
            [*apart, "sh", "-ec", f"exec 2>&1\n{self.mounts}\n{script}"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for own, name in self.names.items():
            done.stdout = done.stdout.replace(own, name)
        return done

    def run(self, block: Block) -> str:
        """Run a block of shell, which succeeds, and return what it prints."""
        done = self.shell(block.text)
        assert done.returncode == 0, f"{block.place}\n{done.stdout}"
        return done.stdout

    def python(self, *texts: str) -> str:
        """Run Python, one text after the other as at one prompt, and return what it prints."""
        files = [self.folder / ".path" / f"{number}.py" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            for own, name in self.names.items():
                text = text.replace(name, own)  # noqa: PLW2901 - the same text, on this machine
            file.write_text(text, encoding="utf-8")
        done = self.shell(shlex.join([sys.executable, "-c", _PYTHON, *map(str, files)]))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def show(self, block: Block) -> None:
        """Run the commands of a block with prompts; each prints what the block shows, whatever its exit status."""
        for command, shown in prompts(block):
            output = self.shell(command).stdout
            assert is_shown(shown, output), f"{block.place}: {command}\n{output}"
